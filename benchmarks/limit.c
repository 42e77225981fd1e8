/* What this machine allows for an fp32 sum all-reduce in place between N processes: the yardstick of allreduce.py.
 *
 *     cc -std=c11 -O3 -o limit limit.c
 *     echo "65536 1000 15" | ./limit 2
 *
 * Every line of the standard input, "NBYTES CALLS BATCHES", is answered by one line "NBYTES MICROSECONDS WAY": the
 * median, over BATCHES batches, of the time of one call in a batch of CALLS calls, seen by rank 0.  All ways
 * (limit_ways.h) that fit the size are tried each time; the fastest is the answer.  The end of the input ends it.
 *
 * Between requests every process sleeps, so another program can be measured in turn with this one.
 *
 * It shares no code with ascend_rt and does nothing a runtime must do besides: no arguments are compared, nobody's
 * death or error is noticed, buffers are known beforehand. */
#define _GNU_SOURCE
#include "limit_ways.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { MAX_BATCHES = 1001 };

struct request {
    size_t nbytes;
    int calls, batches; /* no calls: the end */
    enum way way;
};

/* What the processes share besides the meeting place. */
struct shared {
    struct meeting meeting;
    _Alignas(SPACING) _Atomic uint32_t requests; /* written by rank 0: +1, RELEASE, when `request` is complete */
    struct request request;
    _Atomic bool wrong;
};

/* What `rank` contributes to element i in the check: small integers, so that sums are exact in every order. */
static float sample(int rank, size_t i)
{
    uint64_t x = (i * 64 + (uint64_t)rank) * 0x9E3779B97F4A7C15u;
    return (float)(int)((x ^ x >> 29) % 15) - 7;
}

/* Whether this rank gets the right sums. */
static bool check(struct rank *self, const struct request *request)
{
    size_t count = request->nbytes / sizeof(float);
    float *mine = self->buffers[self->rank];
    for (size_t i = 0; i < count; i++)
        mine[i] = sample(self->rank, i);
    ways[request->way].all_reduce(self, count);
    for (size_t i = 0; i < count; i++) {
        float want = 0;
        for (int peer = 0; peer < self->size; peer++)
            want += sample(peer, i);
        if (mine[i] != want)
            return false;
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Every rank runs this for every request; the result is what this rank saw. */
static double measure(struct rank *self, const struct request *request)
{
    /* Infinity stays itself however often it is summed in place, is no slower to add than any normal number and, unlike
     * zero, no memory system has a short cut for it. */
    size_t count = request->nbytes / sizeof(float);
    for (size_t i = 0; i < count; i++)
        self->buffers[self->rank][i] = __builtin_inff();
    void (*call)(struct rank *, size_t) = ways[request->way].all_reduce;
    for (int i = 0; i <= request->calls / 10; i++)
        call(self, count);

    double times[MAX_BATCHES];
    for (int batch = 0; batch < request->batches; batch++) {
        barrier(self);
        double start = now_us();
        for (int i = 0; i < request->calls; i++)
            call(self, count);
        times[batch] = (now_us() - start) / request->calls;
    }
    barrier(self);
    qsort(times, (size_t)request->batches, sizeof *times, by_value);
    return times[request->batches / 2];
}

static void start_request(struct shared *shared, const struct request *request)
{
    shared->request = *request;
    atomic_fetch_add_explicit(&shared->requests, 1, memory_order_release);
    futex(&shared->requests, FUTEX_WAKE, INT32_MAX, NULL);
}

static double serve(struct rank *self, struct shared *shared, const struct request *request)
{
    if (!check(self, request))
        atomic_store(&shared->wrong, true);
    barrier(self);
    return measure(self, request);
}

static _Noreturn void follow(struct rank *self, struct shared *shared)
{
    for (uint32_t done = 0;; done++) {
        while (atomic_load_explicit(&shared->requests, memory_order_acquire) == done)
            futex(&shared->requests, FUTEX_WAIT, done, NULL);
        /* A copy: rank 0 may write the next one as soon as the last barrier of this one is complete. */
        struct request request = shared->request;
        if (request.calls == 0)
            _exit(0);
        serve(self, shared, &request);
    }
}

static void answer(struct rank *self, struct shared *shared, struct request request)
{
    const char *best = NULL;
    double least = 0;
    for (request.way = LINE; request.way < WAYS; request.way++) {
        if (request.nbytes / sizeof(float) > ways[request.way].most_floats)
            continue;
        start_request(shared, &request);
        double time = serve(self, shared, &request);
        if (atomic_load(&shared->wrong)) {
            fprintf(stderr, "limit: wrong sums of %zu bytes by %s\n", request.nbytes, ways[request.way].name);
            exit(1);
        }
        if (best == NULL || time < least)
            best = ways[request.way].name, least = time;
    }
    printf("%zu %.4f %s\n", request.nbytes, least, best);
    fflush(stdout);
}

static void lead(struct rank *self, struct shared *shared)
{
    char text[128];
    while (fgets(text, sizeof text, stdin)) {
        struct request request;
        if (sscanf(text, "%zu %d %d", &request.nbytes, &request.calls, &request.batches) != 3 ||
            request.nbytes % sizeof(float) != 0 || request.nbytes / sizeof(float) > WINDOW_FLOATS || request.calls < 1 ||
            request.batches < 1 || request.batches > MAX_BATCHES) {
            fprintf(stderr, "limit: expected NBYTES (whole floats, at most 1 GB) CALLS BATCHES (1..%d), not: %s",
                    MAX_BATCHES, text);
            exit(2);
        }
        answer(self, shared, request);
    }
    signal(SIGCHLD, SIG_DFL);
    start_request(shared, &(struct request){0});
}

/* A killed rank would leave the others waiting for ever. */
static void on_death(int signal_number)
{
    static const char text[] = "limit: a rank died\n";
    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void *map_shared(size_t nbytes)
{
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        fail("limit: mmap");
    return memory;
}

/* Returns in every rank; the others die with rank 0. */
static void fork_ranks(struct rank *self)
{
    pid_t first = getpid();
    for (int rank = 1; rank < self->size && self->rank == 0; rank++) {
        pid_t child = fork();
        if (child < 0)
            fail("limit: fork");
        if (child > 0)
            continue;
        self->rank = rank;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != first)
            _exit(1);
    }
}

int main(int argc, char **argv)
{
    int size = argc == 2 ? atoi(argv[1]) : 0;
    if (size < 1 || size > MAX_RANKS) {
        fprintf(stderr, "usage: %s RANKS (1..%d) < requests\n", argv[0], MAX_RANKS);
        return 2;
    }
    struct shared *shared = map_shared(sizeof *shared);
    struct rank self = {.size = size, .meeting = &shared->meeting};
    float *windows = map_shared((size_t)size * WINDOW_FLOATS * sizeof *windows);
    for (int rank = 0; rank < size; rank++)
        self.buffers[rank] = windows + (size_t)rank * WINDOW_FLOATS;
    set_patience(&self);

    fork_ranks(&self);
    if (self.rank > 0)
        follow(&self, shared);
    signal(SIGCHLD, on_death);
    lead(&self, shared);
    while (wait(NULL) > 0) {
    }
    return 0;
}
