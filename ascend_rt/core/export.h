/* Exported memory and flags: publishing a record that a key leads to, and following a key, which may be any number. */
#ifndef ASCEND_RT_EXPORT_H
#define ASCEND_RT_EXPORT_H

#include "segment.h"

struct key {
    uint64_t record; /* offset of the struct export in the segment */
    uint64_t token[2];
};

enum import_end { IMPORT_DONE, IMPORT_UNKNOWN, IMPORT_OTHER_KIND, IMPORT_NOT_ALLOWED };

/* `record` lies in a block of the caller's; a token of two halves that are not 0. */
void export_publish(const struct segment *segment, const struct key *key, enum export_kind kind, uint64_t offset,
                    uint64_t nbytes, bool open);
/* False if there is no room for so many processes; then none is added. */
bool export_allow(const struct segment *segment, uint64_t record, const uint32_t *pids, uint32_t npids);
/* Whether a use of an importer is not over yet, until when the memory must not become another's. */
bool export_withdraw(const struct segment *segment, uint64_t record);
bool export_is_used(const struct segment *segment, uint64_t record);

/* Follows a key: *offset and *nbytes in the segment, which are inside of it whatever the record says. */
enum import_end export_find(const struct segment *segment, const struct key *key, enum export_kind kind, uint32_t pid,
                            uint64_t *offset, uint64_t *nbytes);
/* Whether what a key leads to is exported still. */
bool export_lives(const struct segment *segment, const struct key *key);
/* False: it is not exported any more.  Otherwise the exporter keeps the memory until as many ends.  Of a key that was
 * followed: its record is none but a record. */
bool export_begin_use(const struct segment *segment, const struct key *key);
void export_end_use(const struct segment *segment, uint64_t record);

#endif
