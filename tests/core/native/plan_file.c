#include "plan_file.h"

#include "expect.h"

enum { RECORD_HEADER = 9 };

static int32_t *read_words(const char *path, size_t *nwords)
{
    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL);
    EXPECT(fseek(file, 0, SEEK_END) == 0);
    *nwords = (size_t)ftell(file) / sizeof(int32_t);
    rewind(file);
    int32_t *words = malloc(*nwords * sizeof *words);
    EXPECT(words != NULL && fread(words, sizeof *words, *nwords, file) == *nwords);
    fclose(file);
    return words;
}

void plan_file_read(struct plan_file *file, const char *path)
{
    size_t nwords;
    *file = (struct plan_file){.content = read_words(path, &nwords)};
    file->plans = calloc(nwords / RECORD_HEADER + 1, sizeof *file->plans);
    EXPECT(file->plans != NULL);
    for (const int32_t *at = file->content; at < file->content + nwords; at += RECORD_HEADER + at[6] + at[7] + at[8])
        file->plans[file->nplans++] = (struct packed){
            .collective = (uint8_t)at[0],
            .algorithm = (uint32_t)at[1],
            .root = (uint32_t)at[2],
            .size = (uint32_t)at[3],
            .rank = (uint32_t)at[4],
            .fingerprint = (uint32_t)at[5],
            .nwords = (size_t)at[6],
            .nlent = {(size_t)at[7], (size_t)at[8]},
            .words = at + RECORD_HEADER,
        };
    EXPECT(file->nplans > 0);
}

void plan_file_close(struct plan_file *file)
{
    free(file->plans);
    free(file->content);
}

static void lend(struct plan *plan, const struct packed *packed)
{
    uint8_t marks[1024];
    const size_t nin = packed->nlent[BUFFER_IN], nout = packed->nlent[BUFFER_OUT];
    EXPECT(nin + nout <= sizeof marks);
    for (size_t i = 0; i < nin + nout; i++)
        marks[i] = (uint8_t)packed->words[packed->nwords + i];
    EXPECT(plan_lend(plan, marks, nin, marks + nin, nout) == NULL);
}

void add_packed(struct communicator *c, const struct packed *packed, uint8_t dtype, uint8_t op)
{
    struct choice choice = {.collective = packed->collective, .dtype = dtype, .op = op, .root = packed->root,
                            .most_nbytes = UINT64_MAX, .fingerprint = packed->fingerprint};
    EXPECT(plan_read(&choice.plan, packed->words, packed->nwords) == NULL);
    lend(&choice.plan, packed);
    EXPECT_EQUAL(communicator_add_choice(c, &choice), 0);
}

/* What ascend_rt/plan/exchange.py writes, for the collectives that tests draw. */
static size_t exchange_words(int32_t *words, uint8_t collective, uint32_t size, uint32_t rank, uint32_t root)
{
    int32_t one = collective != BARRIER, all = (int32_t)size;
    bool fills = collective != BROADCAST || rank == root;
    words[0] = collective == REDUCE_SCATTER ? all : one;
    words[1] = fills ? words[0] : 0;
    words[2] = collective == ALL_GATHER ? all : one;
    for (int32_t block = 0; block < words[2]; block++) {
        int32_t *take = words + EXCHANGE_HEADER + 2 * block;
        take[0] = collective == BROADCAST ? (int32_t)root : collective == ALL_GATHER ? block : TAKE_FOLDED;
        take[1] = collective == REDUCE_SCATTER ? (int32_t)rank : 0;
    }
    return EXCHANGE_HEADER + 2 * (size_t)words[2];
}

static void add_exchange(struct communicator *c, struct choice choice, uint32_t root)
{
    int32_t words[EXCHANGE_HEADER + 2 * 8];
    EXPECT(c->size <= 8);
    size_t nwords = exchange_words(words, choice.collective, c->size, c->rank, root);
    EXPECT(exchange_read(&choice.exchange, words, nwords, c->size) == NULL);
    choice.most_nbytes /= (uint64_t)(words[0] ? words[0] : 1);
    EXPECT_EQUAL(communicator_add_choice(c, &choice), 0);
}

void add_exchanges(struct communicator *c, uint8_t collective, uint8_t dtype, uint8_t op, uint64_t most_nbytes)
{
    struct choice choice = {.collective = collective, .dtype = dtype, .op = op, .root = ROOT_ANY,
                            .most_nbytes = most_nbytes, .is_exchange = true};
    if (collective != BROADCAST)
        add_exchange(c, choice, 0);
    for (choice.root = 0; collective == BROADCAST && choice.root < c->size; choice.root++)
        add_exchange(c, choice, choice.root);
}

void prefer_choice(struct communicator *c, const struct call *call, uint32_t fingerprint)
{
    for (size_t i = 0; i < c->nchoices; i++) {
        struct choice *choice = c->choices[i];
        if (choice->collective == call->collective && choice->dtype == call->dtype && choice->op == call->op &&
            choice->fingerprint == fingerprint && (choice->root == ROOT_ANY || choice->root == call->root)) {
            c->latest = choice;
            return;
        }
    }
    EXPECT(!"a choice with this fingerprint");
}
