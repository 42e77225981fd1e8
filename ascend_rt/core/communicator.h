/* One rank's side of one communicator, and the life of one call on it: issued by the program, run by whoever's turn it
 * is, the program's own thread or a stream's worker. */
#ifndef ASCEND_RT_COMMUNICATOR_H
#define ASCEND_RT_COMMUNICATOR_H

#include "arena.h"
#include "exchange.h"
#include "plan.h"
#include "reduce.h"
#include "segment.h"
#include "view.h"
#include "wait.h"

/* HcclCMDType of what the binding makes by itself; two are ours: a round in which all ranks take the highest number of a
 * call, and one that carries nothing but notes. */
enum collective {
    BROADCAST = 1,
    ALL_REDUCE = 2,
    SEND = 4,
    RECEIVE = 5,
    BATCH_SEND_RECV = 13,
    BARRIER = 103,
    COLLECTIVE_RESYNC = 254,
    COLLECTIVE_TELL = 255
};
enum { ROOT_ANY = UINT32_MAX };

/* How calls of one kind and a range of sizes are done.  Python chooses and adds it; core only looks it up. */
struct choice {
    uint8_t collective, dtype, op;
    uint32_t root;
    uint64_t least_nbytes, most_nbytes; /* of one block */
    uint32_t fingerprint;
    bool is_exchange; /* or a plan */
    struct exchange exchange;
    struct plan plan;
};

struct call {
    uint8_t collective, dtype, op;
    uint32_t root;
    uint64_t count; /* elements of one block */
    const void *in;
    void *out;
    const struct view *strided_in, *strided_out; /* NULL: contiguous at in, out */
    struct split *split;                         /* its blocks differ in count, which is 0 then; or NULL */
};

/* A call that only has to be run: all that is needed was found when it was issued. */
struct issue {
    const struct choice *choice;
    uint32_t number; /* of the call, in program order */
    uint8_t collective, dtype, op;
    uint32_t root;
    uint64_t count;
    struct view in, out;
    struct split *split; /* not the issue's own */
    uint32_t outside;    /* bits as below: buffers that are not in device memory */
    uint32_t staged;     /* STAGED_IN, STAGED_OUT: of those, the ones that others touch, or that are not contiguous */
    bool same_place;     /* IN is OUT */
    uint64_t in_offset, out_offset, scratch_offset; /* as the line will say them */
};

enum call_end {
    CALL_DONE,
    CALL_DIFFERS,    /* the lines do not agree, or one refuses: nothing has moved, the communicator works on */
    CALL_ABORTED,    /* the communicator has ended: see board->abort */
    CALL_NO_CHOICE,  /* these when it is issued, before anything was said to anybody: */
    CALL_NO_SCRATCH,
    CALL_NO_STAGING,
    CALL_TOO_LARGE,  /* more elements than the job has bytes of memory */
    EVENT_LATE,      /* these of tasks of a stream that are no calls: an event did not complete in time */
    WORD_LATE,       /* nor did a notify or a value come */
    STREAM_ABORTED,  /* the program dropped what was queued */
    FUNCTION_FAILED, /* a function of the program raised an exception */
};

/* What rank `from` sends to rank `to`, and how much that one expects, in elements; equal: they agree. */
struct uneven {
    uint32_t from, to;
    uint64_t sent, expected;
};

/* Why a call failed, kept for whoever tells the program. */
struct failure {
    _Atomic uint32_t references;
    const struct communicator *_Atomic communicator; /* on which it came up, or made this rank refuse; or NULL */
    enum call_end how;
    uint32_t number;
    uint8_t collective;
    uint32_t abort;           /* CALL_ABORTED: the abort word */
    char where[WHERE_NBYTES]; /* the line of the program that made the call on this rank */
    struct uneven uneven;     /* CALL_DIFFERS: if all said the same, two whose splits do not agree */
    uint32_t size;            /* CALL_DIFFERS: what every rank said, and where */
    struct statement {
        struct descriptor said;
        char note[NOTE_NBYTES], where[WHERE_NBYTES];
    } statements[];
};
struct failure *failure_hold(struct failure *failure);
void failure_release(struct failure *failure);

struct communicator {
    struct segment segment;
    struct board *board;
    const struct arena *arena;
    uint32_t rank, size;
    struct waiter waiter;
    uint32_t *members; /* rank of the job by rank of the communicator */

    struct channel_end *ends[2]; /* by side, by rank: transfer.h */
    _Atomic uint64_t late_sleeps_in_transfers; /* of those that block: each waits with a patience of its own */

    uint32_t call;     /* number of the call issued last; + 1 for every call, done or refused.  Owner: who issues */

    /* Owner: whose turn it is. */
    uint32_t round;    /* of the board; + 1 when a round is done */
    uint32_t phase;    /* committed calls */
    bool ended;        /* this rank has given up: it never touches the board again */
    uint32_t quiescing; /* rank of the job + 1 whose way out of the data phase is all that this rank waits for; 0 */
    struct failure *failure; /* of the call that failed last */
    struct links *links;     /* link.h; NULL: memory is all that limits */

    struct choice **choices;
    size_t nchoices;
    struct choice *latest;
    uint64_t scratch_offset, scratch_nbytes;
    uint64_t most_scratch_nbytes; /* a call that needs more goes in pieces; the same on every rank; 0: no limit */
    uint64_t staging_offset, piece_nbytes; /* two areas of so many bytes, for IN and for OUT; 0: none yet */
    bool has_staging;
    /* Whether ranks can reach each other's plain memory: found out by each for itself in the first round in which a rank
     * stages, and by all for all in the next.  So all know the same in the same round. */
    enum reach { REACH_UNKNOWN, REACH_REFUSED, REACH_GRANTED, REACH_NONE, REACH_ALL } reach;
    uint64_t least_reached_nbytes; /* calls of fewer bytes are staged all the same; 0: all are */
    uint64_t secret;               /* see struct left */
    unsigned char *bounce;         /* what is reached goes through it; NULL until all have granted */
    size_t bounce_nbytes;
    uint64_t reached_nbytes;       /* statistics: read and stored so by this rank */
    uint64_t table_offset; /* where this rank's split table is for the others to read, SPLIT_NBYTES long */
    struct uneven uneven;  /* found in this round */
    enum kernel_variant kernels;

    /* By rank, `size` long each. */
    uint32_t *posted, *awaited; /* tokens */
    unsigned char **base[BUFFERS];
    uint32_t *far[BUFFERS];     /* the process that base is an address of; 0: this one */
    bool reaches_far;           /* any of them, in this round */
    uint64_t *stride[BUFFERS];  /* from block to block, in elements */
    unsigned char *private[2];  /* IN, OUT outside of device memory: where chunks that are not lent are used; or NULL */
    void **dsts;                /* addresses of the places of a step, here or of another process */
    const void **srcs;
    void **near_dsts;           /* and what stands for them here */
    const void **near_srcs;
};

/* 0 or an errno.  `board`: of so many ranks, NULL for the world's.  `members` has `size` ranks of the job, in the order of their ranks here. */
int communicator_open(struct communicator *communicator, const struct segment *segment, const struct arena *arena,
                      struct board *board, const uint32_t *members, uint32_t size, uint32_t rank);
void communicator_close(struct communicator *communicator);
/* 0, ENOMEM, or EINVAL for a choice that this rank cannot run.  Takes over its exchange or plan if it succeeds. */
int communicator_add_choice(struct communicator *communicator, const struct choice *choice);
struct choice *communicator_find_choice(struct communicator *communicator, const struct call *call);
uint64_t communicator_scratch_needed(struct communicator *communicator, const struct call *call);

/* CALL_DONE, and the call only needs a number; or what is missing for it. */
enum call_end communicator_prepare(struct communicator *communicator, const struct call *call, struct issue *issue);
/* The same, and it has its number. */
enum call_end communicator_issue(struct communicator *communicator, const struct call *call, struct issue *issue);
/* The number of a call that only takes part in its round to refuse. */
uint32_t communicator_take_number(struct communicator *communicator);
/* Blocks until the call is done, or has failed on every rank alike; then communicator->failure says why. */
enum call_end communicator_run(struct communicator *communicator, const struct issue *issue);
/* Both. */
enum call_end communicator_call(struct communicator *communicator, const struct call *call);
/* Takes part in the round of a call whose arguments are wrong on this rank; ends with CALL_DIFFERS or CALL_ABORTED. */
enum call_end communicator_refuse(struct communicator *communicator, uint8_t collective, uint32_t number, const char *why);
/* Sets the numbers of the ranks equal, to the highest of all.  Nothing that is issued before it may run behind it. */
enum call_end communicator_resync(struct communicator *communicator, uint32_t number);
/* A round that carries a note of every rank and no call. */
enum call_end communicator_tell(struct communicator *communicator, const char *text);

/* ---- board.c: a round, a decision, a way out ---- */
uint32_t board_cause(const struct communicator *communicator, enum abort_kind kind, uint32_t culprit);
/* The abort word for a wait for `peer` that ended otherwise than WAIT_ARRIVED or WAIT_ABORTED. */
uint32_t board_cause_of(const struct communicator *communicator, enum wait_end end, uint32_t peer);
/* Ends the communicator; the first cause stays, is this rank's failure, and is returned. */
uint32_t board_abort(struct communicator *communicator, uint32_t cause);
enum call_end board_may_start(struct communicator *communicator);
struct line *board_begin(struct communicator *communicator);
enum call_end board_round(struct communicator *communicator, const struct descriptor *said, bool commits);
/* Its two halves: all lines are read, and those of calls that commit are decided.  Between them every rank may check what
 * hangs on the lines, if all come to the same result; who finds a fault does not commit. */
enum call_end board_meet(struct communicator *communicator, const struct descriptor *said, bool commits);
enum call_end board_commit(struct communicator *communicator);
/* For the rank that waits in a round: whether a line that is here already says something else than its own. */
bool board_differs_so_far(const struct communicator *communicator);
enum call_end board_leave(struct communicator *communicator, enum wait_end end, uint32_t peer);
void board_overrun(struct communicator *communicator);
/* Where a rank has the payload of a round. */
unsigned char *board_payload(const struct communicator *communicator, uint32_t round, uint32_t rank, uint64_t nbytes);
/* Line and note of a rank in the round that was done last. */
struct line *board_latest_line(const struct communicator *communicator, uint32_t rank);
struct note *board_latest_note(const struct communicator *communicator, uint32_t rank);

/* Elements of every block that are moved in one round. */
struct piece {
    uint64_t first, count;
};

/* ---- exchange.c: a call that is its round ---- */
enum call_end exchange_run(struct communicator *communicator, const struct issue *issue, const struct descriptor *said);

/* The bits of a buffer in a line and in an issue; scratch is neither staged nor plain. */
static inline uint32_t staged_bit(enum buffer buffer) { return buffer == BUFFER_SCRATCH ? 0 : (uint32_t)STAGED_IN << buffer; }
static inline uint32_t plain_bit(enum buffer buffer) { return buffer == BUFFER_SCRATCH ? 0 : (uint32_t)PLAIN_IN << buffer; }

/* ---- call.c: what calls in pieces have in common ---- */
/* The bits of this rank's line: which of its buffers are staged in the next round, and which the others reach. */
uint32_t memory_of(const struct communicator *communicator, const struct issue *issue);
/* Says in this rank's next line where its buffers are. */
void say_places(struct communicator *communicator, const struct issue *issue, uint32_t memory, uint64_t scratch_offset);
/* Where a rank has said that its buffer begins: an address here, or in its process if it is plain. */
unsigned char *said_place(const struct communicator *communicator, uint32_t rank, enum buffer buffer);
/* Behind every round that says them. */
void learn_reach(struct communicator *communicator);
bool anybody_stages(const struct communicator *communicator);
/* Whether this rank can reach the plain memory of every other.  They have all taken part in a round. */
bool communicator_reaches_all(struct communicator *communicator);
/* Elements of one block for which a plan's scratch keeps to its limit. */
uint64_t most_for_scratch(const struct communicator *communicator, const struct plan *plan, size_t item_nbytes);
/* Elements of one block that fit a piece: whole cache lines, and the same number on every rank. */
uint64_t piece_count(const struct communicator *communicator, const struct issue *issue);

/* ---- split.c: calls whose blocks differ in count ---- */

/* By block, in elements: how many there are, and where they begin in the buffer. */
enum split_row { IN_COUNTS, IN_STARTS, OUT_COUNTS, OUT_STARTS, SPLIT_ROWS };
#define SPLIT_NBYTES(n) (SPLIT_ROWS * (uint64_t)(n) * sizeof(uint64_t))

struct split {
    _Atomic uint32_t references;
    uint64_t in_count, out_count; /* of the whole buffers */
    uint64_t rows[];              /* SPLIT_ROWS times as many as there are ranks */
};
struct split *split_hold(struct split *split);
void split_release(struct split *split);
enum call_end split_run(struct communicator *communicator, const struct issue *issue, const struct descriptor *said);
/* Returns how many elements were read from each source. */
enum wait_end split_move(struct communicator *communicator, const struct issue *issue, const struct piece *piece,
                         const struct step *step, uint64_t *moved, uint32_t *peer);

/* ---- move.c ---- */

/* Moves `count` elements between the places of a step, whose addresses are in dsts and srcs.  WAIT_ARRIVED; or how it ended
 * because memory of *peer was out of reach. */
enum wait_end move_elements(struct communicator *communicator, const struct issue *issue, const struct step *step,
                            uint64_t count, uint32_t *peer);

/* ---- exec.c: the steps of one plan, on elements first to first + count of every block ---- */
/* Which buffers of others lie outside of the segment, by the lines of the round just done. */
void plan_find_far(struct communicator *communicator);
bool plan_find_buffers(struct communicator *communicator, const struct plan *plan, const struct issue *issue,
                       const struct piece *piece);
enum wait_end plan_run(struct communicator *communicator, const struct plan *plan, const struct issue *issue,
                       const struct piece *piece, uint32_t *peer);

#endif
