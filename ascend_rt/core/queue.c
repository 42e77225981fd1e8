#include "queue.h"

#include "order.h"

void call_queue_open(struct call_queue *queue, struct communicator *communicator)
{
    *queue = (struct call_queue){.communicator = communicator, .until = UINT32_MAX};
    pthread_mutex_init(&queue->lock, NULL);
}

void call_queue_close(struct call_queue *queue)
{
    failure_release(queue->disagreement);
    failure_release(queue->cause);
    pthread_mutex_destroy(&queue->lock);
}

uint32_t call_queue_take_ticket(struct call_queue *queue)
{
    return queue->tickets++;
}

bool call_queue_is_idle(const struct call_queue *queue)
{
    return notify_reached(&queue->served, queue->tickets) && !load_relaxed(&queue->disagreed);
}

static enum wait_end wait_on(void *context, uint64_t since_ns, uint64_t waited_ns)
{
    (void)context, (void)since_ns, (void)waited_ns;
    return WAIT_ARRIVED;
}

bool call_queue_wait(struct call_queue *queue, uint32_t ticket, const struct wait_host *host, struct patience *patience)
{
    return notify_wait(host, patience, &queue->served, ticket, wait_on, NULL) == WAIT_ARRIVED;
}

void call_queue_pass(struct call_queue *queue, uint32_t ticket, const struct wait_host *host)
{
    notify_post(host, &queue->served, ticket + 1);
}

struct failure *call_queue_skips(struct call_queue *queue, uint32_t number)
{
    if (!load_acquire(&queue->disagreed))
        return NULL;
    struct failure *failure = NULL;
    pthread_mutex_lock(&queue->lock);
    if (number <= queue->until) {
        failure = failure_hold(queue->disagreement);
    } else { /* turns come in the order of numbers: all that had to be skipped have been */
        failure_release(queue->disagreement);
        failure_release(queue->cause);
        queue->disagreement = queue->cause = NULL;
        queue->until = UINT32_MAX;
        store_release(&queue->disagreed, false);
    }
    pthread_mutex_unlock(&queue->lock);
    return failure;
}

void call_queue_resync(struct call_queue *queue, uint32_t number)
{
    pthread_mutex_lock(&queue->lock);
    if (queue->disagreement)
        queue->until = number - 1;
    pthread_mutex_unlock(&queue->lock);
}

void call_queue_disagree(struct call_queue *queue, struct failure *failure, struct failure *cause)
{
    const struct communicator *none = NULL;
    if (cause) /* who tells the program of it finds this queue by it */
        atomic_compare_exchange_strong(&cause->communicator, &none, queue->communicator);
    pthread_mutex_lock(&queue->lock);
    failure_release(queue->disagreement);
    failure_release(queue->cause);
    queue->disagreement = failure_hold(failure);
    queue->cause = failure_hold(cause);
    queue->until = UINT32_MAX;
    store_release(&queue->disagreed, true);
    pthread_mutex_unlock(&queue->lock);
}

void call_queue_told(struct call_queue *queue, const struct failure *failure)
{
    pthread_mutex_lock(&queue->lock);
    if (failure && (failure == queue->disagreement || failure == queue->cause) && queue->until == UINT32_MAX)
        queue->until = queue->communicator->call;
    pthread_mutex_unlock(&queue->lock);
}
