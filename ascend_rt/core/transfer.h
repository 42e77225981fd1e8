/* Send, Recv and batches of them: transfers between two ranks over the channel that leads from one to the other.
 *
 * A transfer is a list of items; each sends to one peer or receives from one, and none waits for another of its list.
 * Items that use the same end of a channel take their turn in the order in which they were issued, whatever thread or
 * stream runs them; between channels, and between channels and collectives, there is no order. */
#ifndef ASCEND_RT_TRANSFER_H
#define ASCEND_RT_TRANSFER_H

#include "communicator.h"

enum side { SIDE_SEND, SIDE_RECEIVE, SIDES };
enum { PIECES = 2 }; /* of what is staged: one is filled while the other is drained */

/* This rank's end of one channel, in its own memory. */
struct channel_end {
    uint32_t tickets;         /* given so far.  Owner: who issues */
    _Atomic uint32_t served;  /* tickets whose items are over.  Writer: whose turn it is */
    uint32_t round;           /* begun so far.  Owner: whose turn it is */
    uint64_t staging_offset, staging_nbytes; /* where what is sent goes that is not in device memory: two pieces, filled
                                                in turn; 0 bytes: nowhere yet.  Owner: who issues */
};

enum item_state {
    ITEM_QUEUED,    /* for its turn */
    ITEM_OFFERED,   /* sender: until the offer is settled */
    ITEM_TELLING,   /* sender: until the receiver has read where the sender was called */
    ITEM_AWAITING,  /* receiver: for the offer */
    ITEM_DRAINING,  /* receiver: for pieces */
    ITEM_ARRIVING,  /* receiver: until an emulated link would have brought it all */
    ITEM_LISTENING, /* receiver: for where the sender was called */
    ITEM_OVER,
};

struct item {
    enum side side;
    uint32_t peer;
    uint8_t dtype;
    uint64_t count;
    struct view view;             /* of the program's memory, contiguous or with these: */
    struct dimensions dimensions;

    /* Found when it is issued. */
    uint32_t ticket;
    uint64_t offset;      /* sender: of the elements, or of the pieces */
    uint64_t piece_count; /* sender: elements of a piece; 0: the elements lie in device memory */

    enum item_state state;
    uint32_t round, pieces;
    uint64_t due_ns;      /* receiver: when an emulated link will have brought what was read so far; 0: there is none */
    enum call_end end;
    struct failure *failure; /* CALL_DIFFERS */
};

struct transfer {
    struct communicator *communicator;
    uint8_t collective;      /* SEND, RECEIVE, BATCH_SEND_RECV */
    bool refused;            /* this rank refuses all of it: why */
    char why[NOTE_NBYTES - WHERE_NBYTES];
    const struct wait_host *host;
    struct patience *patience;
    bool given_up;           /* items that are not over yet are abandoned, each in its turn */
    bool large;              /* copies take longer than a lock should be held */
    bool reported;           /* what it waits for, in this rank's line */
    uint64_t looked_ns;      /* when it looked around last; 0: not since something has moved */
    uint64_t idle_ns;        /* for how long nothing has moved then */
    uint64_t arrival_ns;     /* when something on an emulated link will have arrived; UINT64_MAX: nothing is on one */
    uint32_t culprit;        /* the peer for whose sake a wait has ended */
    char where[WHERE_NBYTES]; /* the line of the program, once it was asked for */
    uint32_t nitems, nover;
    struct item items[];
};

/* NULL: no memory. */
struct transfer *transfer_new(struct communicator *communicator, uint8_t collective, uint32_t nitems);
/* The same items, not issued yet; NULL: no memory. */
struct transfer *transfer_copy(const struct transfer *transfer);
void transfer_free(struct transfer *transfer);
/* Places its items; false if the staging for transfer->culprit is missing. */
bool transfer_prepare(struct transfer *transfer);
/* All items of a transfer that was prepared get their turn. */
void transfer_issue(struct transfer *transfer);
/* Blocks until all items are over.  CALL_DONE, or why the first of them failed and a reference to its failure. */
enum call_end transfer_run(struct transfer *transfer, const struct wait_host *host, struct patience *patience,
                           struct failure **failure);
/* Before it is run: its items are offered and awaited all the same, so that the peers learn of it. */
void transfer_refuse(struct transfer *transfer, const char *why);
/* Only waits for the turn of each item and passes it on. */
void transfer_drop(struct transfer *transfer, const struct wait_host *host, struct patience *patience);
/* Whether none of the communicator runs or is queued. */
bool transfers_are_over(const struct communicator *communicator);
/* How a blocking transfer waits: as the communicator does, but counted apart, since several may wait at once. */
struct patience transfer_patience(const struct communicator *communicator);

/* ---- channel.c: one item ---- */

/* Goes on as far as it can without waiting; whether anything has changed. */
bool item_advance(struct transfer *transfer, struct item *item);
/* The communicator has ended: ends the item, unless it is not its turn yet.  What was settled stays so. */
void item_abandon(struct transfer *transfer, struct item *item);

const char *transfer_where(struct transfer *transfer);

#endif
