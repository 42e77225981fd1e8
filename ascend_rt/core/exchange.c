#include "exchange.h"

#include <stdlib.h>
#include <string.h>

#include "communicator.h"
#include "link.h"

const char *exchange_read(struct exchange *exchange, const int32_t *words, size_t nwords, uint32_t ranks)
{
    if (nwords < EXCHANGE_HEADER || words[2] < 0 || nwords != EXCHANGE_HEADER + 2 * (size_t)words[2])
        return "not an exchange: its header and its length do not agree";
    if (words[0] < 0 || words[1] < 0 || words[1] > words[0])
        return "an exchange fills more blocks than a payload has";
    const int32_t *takes = words + EXCHANGE_HEADER;
    for (int32_t block = 0; block < words[2]; block++) {
        int32_t rank = takes[2 * block], from = takes[2 * block + 1];
        if (rank < TAKE_NOTHING || rank >= (int32_t)ranks || from < 0 || from >= words[0])
            return "an exchange takes from a rank or a block that does not exist";
    }
    *exchange = (struct exchange){words[0], words[1], words[2], malloc((size_t)words[2] * sizeof(struct take) + 1)};
    if (!exchange->takes)
        return "no memory for an exchange";
    memcpy(exchange->takes, takes, (size_t)words[2] * sizeof(struct take));
    return NULL;
}

void exchange_free(struct exchange *exchange)
{
    free(exchange->takes);
    exchange->takes = NULL;
}

/* ---- running it ---- */

/* What all takes of a call have in common. */
struct taking {
    struct communicator *communicator;
    const struct issue *issue;
    uint64_t nbytes, block_nbytes; /* of a rank's payload, and of a block */
};

static const unsigned char *block_of(const struct taking *taking, uint32_t rank, int32_t block)
{
    const struct communicator *c = taking->communicator;
    return board_payload(c, c->round - 1, rank, taking->nbytes) + (uint64_t)block * taking->block_nbytes;
}

static void fold_block(const struct taking *taking, int32_t from, int32_t to)
{
    struct communicator *c = taking->communicator;
    const struct issue *issue = taking->issue;
    unsigned char folded[PACKET_NBYTES];
    void *dst = issue->out.ndim ? folded : issue->out.base + (uint64_t)to * taking->block_nbytes;
    for (uint32_t rank = 0; rank < c->size; rank++)
        c->srcs[rank] = block_of(taking, rank, from);
    find_reduce(issue->dtype, issue->op, c->kernels)(&dst, 1, c->srcs, (int)c->size, issue->count, c->size);
    if (issue->out.ndim)
        view_store(&issue->out, (uint64_t)to * issue->count, issue->count, folded);
}

static void take_blocks(const struct taking *taking)
{
    const struct exchange *exchange = &taking->issue->choice->exchange;
    uint64_t count = taking->issue->count;
    for (int32_t block = 0; block < exchange->blocks_out; block++) {
        struct take take = exchange->takes[block];
        if (take.rank == TAKE_FOLDED)
            fold_block(taking, take.block, block);
        else if (take.rank >= 0)
            view_store(&taking->issue->out, (uint64_t)block * count, count,
                       block_of(taking, (uint32_t)take.rank, take.block));
    }
}

enum call_end exchange_run(struct communicator *c, const struct issue *issue, const struct descriptor *said)
{
    const struct exchange *exchange = &issue->choice->exchange;
    struct taking taking = {c, issue, 0, issue->count * dtype_nbytes(issue->dtype)};
    taking.nbytes = (uint64_t)exchange->blocks * taking.block_nbytes;
    view_read(&issue->in, 0, (uint64_t)exchange->filled * issue->count, board_payload(c, c->round, c->rank, taking.nbytes));
    enum call_end end = board_round(c, said, false);
    if (end == CALL_DONE && issue->count)
        take_blocks(&taking);
    if (end == CALL_DONE && c->links) {
        link_book_round(c, taking.nbytes);
        link_settle(c);
    }
    return end;
}
