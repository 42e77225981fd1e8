/* How calls end that do not end well, one scenario after another, each on a stage of its own (stage.h).
 *
 *     endings PLANFILE */
#include "endings.h"

static void run(const struct scenario *scenario, const struct plan_file *plans)
{
    struct stage stage;
    printf("%s\n", scenario->name);
    fflush(stdout);
    stage_open(&stage, plans, scenario->size);
    scenario->run(&stage);
    stage_close(&stage);
}

int main(int argc, char **argv)
{
    const struct scenario *const all[] = {round_endings, data_endings, number_scenarios};
    struct plan_file plans;
    EXPECT_EQUAL(argc, 2);
    plan_file_read(&plans, argv[1]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (const struct scenario *scenario = all[i]; scenario->name; scenario++)
            run(scenario, &plans);
    plan_file_close(&plans);
    return 0;
}
