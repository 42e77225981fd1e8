/* A user's buffer: contiguous or strided memory of any kind, read and stored in the order of its elements. */
#ifndef ASCEND_RT_VIEW_H
#define ASCEND_RT_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_DIMENSIONS = 8 }; /* after neighbours that lie one behind the other have been joined */

struct dimensions {
    int64_t shape[MOST_DIMENSIONS], strides[MOST_DIMENSIONS]; /* strides in bytes */
};

struct view {
    unsigned char *base;
    uint32_t item_nbytes;
    int32_t ndim;                  /* 0: contiguous */
    struct dimensions *dimensions; /* not the view's own: it is small, since most are contiguous */
};

struct view view_contiguous(const void *base, size_t item_nbytes);
/* A view of strided memory that uses *dimensions; false if more than MOST_DIMENSIONS cannot be joined. */
bool view_strided(struct view *view, struct dimensions *dimensions, void *base, size_t item_nbytes, int ndim,
                  const int64_t *shape, const int64_t *strides);
/* Elements first to first + count of the view, to or from contiguous memory. */
void view_read(const struct view *view, uint64_t first, uint64_t count, void *to);
void view_store(const struct view *view, uint64_t first, uint64_t count, const void *from);

#endif
