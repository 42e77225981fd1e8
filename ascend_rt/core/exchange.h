/* A call that is its round and nothing more: every rank's IN travels with its line, and everybody takes from there what
 * its OUT must hold.  No plan, no commit, no leave; any kind of own memory; always folded in rank order, once.
 *
 * What to take is written by ascend_rt/plan/exchange.py as an array of int32:
 *     blocks in a payload (the same on all ranks), blocks that this rank fills (its IN, or none if nobody takes from it),
 *     blocks in OUT, then for each block of OUT: rank, block
 */
#ifndef ASCEND_RT_EXCHANGE_H
#define ASCEND_RT_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

enum { EXCHANGE_HEADER = 3 };
enum { TAKE_FOLDED = -1, TAKE_NOTHING = -2 }; /* in the place of a rank: that block of all ranks; leave OUT as it is */

struct take {
    int32_t rank, block;
};

struct exchange {
    int32_t blocks, filled, blocks_out;
    struct take *takes; /* by block of OUT */
};

/* NULL, or why `words` is no exchange among `ranks` (then nothing was allocated). */
const char *exchange_read(struct exchange *exchange, const int32_t *words, size_t nwords, uint32_t ranks);
void exchange_free(struct exchange *exchange);

#endif
