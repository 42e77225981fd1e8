#include "export.h"

#include "order.h"

#define WITHDRAWN (~(uint32_t)EXPORT_USERS_MASK)

static struct export *record_at(const struct segment *segment, uint64_t record)
{
    return (struct export *)(segment->base + record);
}

void export_publish(const struct segment *segment, const struct key *key, enum export_kind kind, uint64_t offset,
                    uint64_t nbytes, bool open)
{
    struct export *export = record_at(segment, key->record);
    store_relaxed(&export->offset, offset);
    store_relaxed(&export->nbytes, nbytes);
    store_relaxed(&export->kind, kind);
    store_relaxed(&export->open, open);
    for (uint32_t i = 0; i < EXPORT_PIDS; i++)
        store_relaxed(&export->pids[i], 0);
    store_relaxed(&export->users, 0);
    store_release(&export->token[0], key->token[0]);
    store_release(&export->token[1], key->token[1]);
}

bool export_allow(const struct segment *segment, uint64_t record, const uint32_t *pids, uint32_t npids)
{
    struct export *export = record_at(segment, record);
    uint32_t used = 0;
    while (used < EXPORT_PIDS && load_relaxed(&export->pids[used]))
        used++;
    if (npids > EXPORT_PIDS - used)
        return false;
    for (uint32_t i = 0; i < npids; i++)
        store_release(&export->pids[used + i], pids[i]);
    return true;
}

bool export_withdraw(const struct segment *segment, uint64_t record)
{
    struct export *export = record_at(segment, record);
    store_release(&export->token[1], 0);
    store_release(&export->token[0], 0);
    return atomic_fetch_or_explicit(&export->users, WITHDRAWN, memory_order_acq_rel) & EXPORT_USERS_MASK;
}

bool export_is_used(const struct segment *segment, uint64_t record)
{
    return load_acquire(&record_at(segment, record)->users) & EXPORT_USERS_MASK;
}

bool export_begin_use(const struct segment *segment, const struct key *key)
{
    struct export *export = record_at(segment, key->record);
    uint32_t users = load_acquire(&export->users);
    do {
        if (users & WITHDRAWN)
            return false;
    } while (!swap_if_equal(&export->users, &users, users + 1));
    if (export_lives(segment, key))
        return true;
    export_end_use(segment, key->record);
    return false;
}

void export_end_use(const struct segment *segment, uint64_t record)
{
    atomic_fetch_sub_explicit(&record_at(segment, record)->users, 1, memory_order_acq_rel);
}

bool export_lives(const struct segment *segment, const struct key *key)
{
    const struct export *export = record_at(segment, key->record);
    return load_acquire(&export->token[1]) == key->token[1] && load_acquire(&export->token[0]) == key->token[0];
}

static bool may_lead_to_a_record(const struct segment *segment, const struct key *key)
{
    const struct job *job = segment->job;
    return key->token[0] && key->token[1] && key->record % LINE_NBYTES == 0 && key->record >= job->windows_offset &&
           key->record < job->nbytes && job->nbytes - key->record >= sizeof(struct export);
}

static bool allows(const struct export *export, uint32_t pid)
{
    for (uint32_t i = 0; i < EXPORT_PIDS; i++)
        if (load_acquire(&export->pids[i]) == pid)
            return true;
    return load_relaxed(&export->open) != 0;
}

enum import_end export_find(const struct segment *segment, const struct key *key, enum export_kind kind, uint32_t pid,
                            uint64_t *offset, uint64_t *nbytes)
{
    const struct job *job = segment->job;
    if (!may_lead_to_a_record(segment, key) || !export_lives(segment, key))
        return IMPORT_UNKNOWN;
    const struct export *export = record_at(segment, key->record);
    *offset = load_acquire(&export->offset);
    *nbytes = load_acquire(&export->nbytes);
    bool is_kind = load_acquire(&export->kind) == kind, allowed = allows(export, pid);
    atomic_thread_fence(memory_order_acquire);
    bool inside = *offset >= job->windows_offset && *offset < job->nbytes && *nbytes <= job->nbytes - *offset;
    if (!inside || !export_lives(segment, key))
        return IMPORT_UNKNOWN;
    return !is_kind ? IMPORT_OTHER_KIND : allowed ? IMPORT_DONE : IMPORT_NOT_ALLOWED;
}
