/* The docstrings of a communicator's native methods: what help() shows, and docs/reference.md. */
#ifndef ASCEND_RT_BINDING_DOCSTRINGS_H
#define ASCEND_RT_BINDING_DOCSTRINGS_H

#define ALL_REDUCE_DOCSTRING                                                                                            \
    "all_reduce(x, out=None, op='sum', stream=None)\n--\n\n"                                                            \
    "Fold x over all ranks; every rank gets the result, with the same bits.\n\n"                                        \
    "x: any shape, the same count on every rank. out: as many elements of the same dtype, x itself when not given; it\n" \
    "must not overlap x in part. op: sum, prod, max, min or avg, or a HcclReduceOp.\n\n"                                \
    "float16 and bfloat16 are folded in float32 and rounded, once by the default algorithms. avg divides before the\n"  \
    "rounding; of integers it sums in 64 bits and rounds toward zero. Sums and products of integers wrap around.\n"     \
    "A NaN of any rank, whichever it is, makes the result NaN, of max and min too."

#define BROADCAST_DOCSTRING                                                                                             \
    "broadcast(x, root=0, stream=None)\n--\n\n"                                                                         \
    "The root's x comes to the x of every rank.\n\n"                                                                    \
    "x: any shape, the same count and dtype on every rank. root: a rank of this communicator."

#define BARRIER_DOCSTRING                                                                                               \
    "barrier(stream=None)\n--\n\n"                                                                                      \
    "Returns when every rank has called it. On a stream, what is queued behind it runs when every rank's is there."

#endif
