/* One rank's side of one communicator, and the life of one call on it. */
#ifndef ASCEND_RT_COMMUNICATOR_H
#define ASCEND_RT_COMMUNICATOR_H

#include "arena.h"
#include "plan.h"
#include "reduce.h"
#include "segment.h"
#include "wait.h"

/* HcclCMDType of what core runs without a plan; COLLECTIVE_TELL is ours: a round that carries nothing but notes. */
enum collective { BROADCAST = 1, ALL_REDUCE = 2, ALL_GATHER = 6, BARRIER = 103, COLLECTIVE_TELL = 255 };
enum { ROOT_ANY = UINT32_MAX };

/* How calls of one kind and a range of sizes are done.  Python chooses and adds it; core only looks it up. */
struct choice {
    uint8_t collective, dtype, op;
    uint32_t root;
    uint64_t least_nbytes, most_nbytes; /* of one block */
    uint32_t fingerprint;
    bool in_line; /* the round carries the payload; there is no plan */
    struct plan plan;
};

struct call {
    uint8_t collective, dtype, op;
    uint32_t root;
    uint64_t count; /* elements of one block */
    const void *in;
    void *out;
};

struct communicator {
    struct segment segment;
    struct board *board;
    const struct arena *arena;
    uint32_t rank, size;
    struct waiter waiter;
    uint32_t *members; /* rank of the job by rank of the communicator */

    uint32_t round; /* of the board; + 1 when a round is done */
    uint32_t call;  /* in program order; + 1 for every call, done or refused */
    uint32_t phase; /* committed calls */
    bool differs;   /* a line read in this round says something else than mine */
    bool ended;     /* this rank has given up: it never touches the board again */
    bool quiescing; /* this rank only waits until its peers are out of the data phase */

    struct choice **choices;
    size_t nchoices;
    struct choice *latest;
    uint64_t scratch_offset, scratch_nbytes;
    enum kernel_variant kernels;

    /* By rank, `size` long each. */
    uint32_t *posted, *awaited; /* tokens */
    unsigned char **base[BUFFERS];
    void **dsts;
    const void **srcs;
};

enum call_end {
    CALL_DONE,
    CALL_DIFFERS,    /* the lines do not agree, or one refuses: nothing has moved, the communicator works on */
    CALL_ABORTED,    /* the communicator has ended: see board->abort */
    CALL_NO_CHOICE,  /* these three before anything was said to anybody: */
    CALL_NO_SCRATCH,
    CALL_NOT_DEVICE_MEMORY,
};

/* 0 or an errno.  `members` has `size` ranks of the job, in the order of their ranks here. */
int communicator_open(struct communicator *communicator, const struct segment *segment, const struct arena *arena,
                      const uint32_t *members, uint32_t size, uint32_t rank);
void communicator_close(struct communicator *communicator);
/* 0, ENOMEM, or EINVAL for a choice that this rank cannot run.  Takes over the plan if it succeeds. */
int communicator_add_choice(struct communicator *communicator, const struct choice *choice);
uint64_t communicator_scratch_needed(struct communicator *communicator, const struct call *call);

/* Blocks until the call is done, or has failed on every rank alike. */
enum call_end communicator_call(struct communicator *communicator, const struct call *call);
/* Takes part in the round of a call whose arguments are wrong on this rank; ends with CALL_DIFFERS or CALL_ABORTED. */
enum call_end communicator_refuse(struct communicator *communicator, uint8_t collective, const char *why);
/* A round that carries a note of every rank and no call. */
enum call_end communicator_tell(struct communicator *communicator, const char *text);

struct choice *communicator_find_choice(struct communicator *communicator, const struct call *call);

/* ---- board.c: a round, a decision, a way out ---- */
enum call_end board_may_start(struct communicator *communicator);
struct line *board_begin(struct communicator *communicator);
enum call_end board_round(struct communicator *communicator, const struct descriptor *said, bool commits);
enum call_end board_leave(struct communicator *communicator, enum wait_end end, uint32_t peer);
void board_overrun(struct communicator *communicator);

/* ---- exec.c: the steps of one plan ---- */
bool plan_find_buffers(struct communicator *communicator, const struct plan *plan, const struct call *call);
enum wait_end plan_run(struct communicator *communicator, const struct plan *plan, const struct call *call, uint32_t *peer);

#endif
