/* Emulated links: what ranks read from and write to each other takes the time that a link between them would need.
 *
 * Between each two ranks of the job there is a link, full duplex, which carries one transfer after another in each
 * direction, whatever rank, thread or communicator it belongs to.  Bytes are moved by the processor as ever; who has moved
 * them then sleeps until the link would have brought them: the last byte leaves when those before it have left, and
 * arrives `latency_ns` later.  What a rank moves without telling anybody in between is on all its links at once, as
 * HCCL's sub-streams do it, and pays the latency once.  Nobody spins: the core is free for the program.
 *
 * The copies themselves are part of that time, so a link that is faster than memory emulates nothing. */
#ifndef ASCEND_RT_LINK_H
#define ASCEND_RT_LINK_H

#include "communicator.h"

struct link {
    double ns_per_byte;
    uint64_t latency_ns;
};

/* Of a communicator that has links; the others never come here. */
struct links {
    uint64_t due_ns;     /* when all that this rank has moved since it told anybody will have arrived.  Owner: whose turn it is */
    struct link by_rank[]; /* of the communicator; to and from this rank */
};

/* When `nbytes` that begin to move at `since_ns` between this rank and `peer`, in the direction said, will have arrived. */
uint64_t link_book(const struct communicator *communicator, uint32_t peer, bool outward, uint64_t since_ns, uint64_t nbytes);
/* Those of a step of a plan: `nbytes` from each of its sources and to each of its destinations. */
void link_book_step(struct communicator *communicator, const struct step *step, uint64_t since_ns, uint64_t nbytes);
/* Those of a round that has just been read: every other rank's payload. */
void link_book_round(struct communicator *communicator, uint64_t nbytes);
/* From now on the calling thread is woken when a sleep of its own is over, as far as Linux can, also where cores are busy. */
void link_wake_at_once(void);
/* Sleeps until all that was booked for steps and rounds has arrived; less if the communicator ends. */
void link_settle(struct communicator *communicator);

#endif
