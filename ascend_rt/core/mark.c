/* One recording of an event: see stream.h. */
#include <stdlib.h>

#include "order.h"
#include "stream.h"

struct mark *mark_new(void)
{
    struct mark *mark = calloc(1, sizeof *mark);
    if (mark)
        mark->references = 1;
    return mark;
}

struct mark *mark_hold(struct mark *mark)
{
    if (mark)
        atomic_fetch_add_explicit(&mark->references, 1, memory_order_relaxed);
    return mark;
}

void mark_release(struct mark *mark)
{
    if (mark && atomic_fetch_sub_explicit(&mark->references, 1, memory_order_acq_rel) == 1) {
        failure_release(mark->failure);
        free(mark);
    }
}

static enum wait_end look_at_limit(void *context, uint64_t since_ns, uint64_t waited_ns)
{
    uint64_t limit_ns = *(const uint64_t *)context;
    (void)since_ns;
    return limit_ns && waited_ns >= limit_ns ? WAIT_TIMEOUT : WAIT_ARRIVED;
}

enum wait_end mark_wait(struct mark *mark, const struct wait_host *host, struct patience *patience, uint64_t timeout_ns)
{
    return notify_wait(host, patience, &mark->complete, 1, look_at_limit, &timeout_ns);
}
