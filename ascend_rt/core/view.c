#include "view.h"

#include <string.h>

struct view view_contiguous(const void *base, size_t item_nbytes)
{
    return (struct view){.base = (unsigned char *)base, .item_nbytes = (uint32_t)item_nbytes};
}

bool view_strided(struct view *view, struct dimensions *dimensions, void *base, size_t item_nbytes, int ndim,
                  const int64_t *shape, const int64_t *strides)
{
    int n = 0;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 1)
            continue;
        if (n > 0 && dimensions->strides[n - 1] == strides[i] * shape[i]) {
            dimensions->shape[n - 1] *= shape[i];
            dimensions->strides[n - 1] = strides[i];
            continue;
        }
        if (n == MOST_DIMENSIONS)
            return false;
        dimensions->shape[n] = shape[i];
        dimensions->strides[n++] = strides[i];
    }
    bool contiguous = n == 0 || (n == 1 && dimensions->strides[0] == (int64_t)item_nbytes);
    *view = view_contiguous(base, item_nbytes);
    view->ndim = contiguous ? 0 : n;
    view->dimensions = dimensions;
    return true;
}

/* Walks the elements from `first` on: where is each run of elements that differ in the last index alone? */
struct walk {
    const struct view *view;
    int64_t index[MOST_DIMENSIONS];
};

static struct walk walk_from(const struct view *view, uint64_t first)
{
    struct walk walk = {.view = view};
    for (int i = view->ndim - 1; i >= 0; i--) {
        walk.index[i] = (int64_t)(first % (uint64_t)view->dimensions->shape[i]);
        first /= (uint64_t)view->dimensions->shape[i];
    }
    return walk;
}

static unsigned char *here(const struct walk *walk)
{
    int64_t offset = 0;
    for (int i = 0; i < walk->view->ndim; i++)
        offset += walk->index[i] * walk->view->dimensions->strides[i];
    return walk->view->base + offset;
}

/* Elements up to the end of this run; moves on behind them, at most `most`. */
static uint64_t next_run(struct walk *walk, uint64_t most)
{
    int last = walk->view->ndim - 1;
    uint64_t left = (uint64_t)(walk->view->dimensions->shape[last] - walk->index[last]);
    uint64_t run = left < most ? left : most;
    walk->index[last] += (int64_t)run;
    for (int i = last; i > 0 && walk->index[i] == walk->view->dimensions->shape[i]; i--) {
        walk->index[i] = 0;
        walk->index[i - 1]++;
    }
    return run;
}

static void copy_run(unsigned char *to, int64_t to_stride, const unsigned char *from, int64_t from_stride, uint64_t count,
                     size_t item_nbytes)
{
    if (to_stride == (int64_t)item_nbytes && from_stride == (int64_t)item_nbytes) {
        memcpy(to, from, count * item_nbytes);
        return;
    }
    for (uint64_t i = 0; i < count; i++, to += to_stride, from += from_stride)
        switch (item_nbytes) {
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        default: memcpy(to, from, 8); break;
        }
}

void view_read(const struct view *view, uint64_t first, uint64_t count, void *to)
{
    size_t item = view->item_nbytes;
    if (count == 0)
        return;
    if (view->ndim == 0) {
        memcpy(to, view->base + first * item, count * item);
        return;
    }
    struct walk walk = walk_from(view, first);
    int64_t stride = view->dimensions->strides[view->ndim - 1];
    for (unsigned char *at = to; count > 0;) {
        const unsigned char *from = here(&walk);
        uint64_t run = next_run(&walk, count);
        copy_run(at, (int64_t)item, from, stride, run, item);
        at += run * item;
        count -= run;
    }
}

void view_store(const struct view *view, uint64_t first, uint64_t count, const void *from)
{
    size_t item = view->item_nbytes;
    if (count == 0)
        return;
    if (view->ndim == 0) {
        memmove(view->base + first * item, from, count * item);
        return;
    }
    struct walk walk = walk_from(view, first);
    int64_t stride = view->dimensions->strides[view->ndim - 1];
    for (const unsigned char *at = from; count > 0;) {
        unsigned char *to = here(&walk);
        uint64_t run = next_run(&walk, count);
        copy_run(to, stride, at, (int64_t)item, run, item);
        at += run * item;
        count -= run;
    }
}
