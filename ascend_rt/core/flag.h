/* Flags, which CANN calls notifies: setting one, and waiting for it in such a way that one waiter takes it. */
#ifndef ASCEND_RT_FLAG_H
#define ASCEND_RT_FLAG_H

#include "wait.h"

/* Setting a flag that is set already does nothing. */
void flag_set(const struct wait_host *host, struct flag *flag);
/* Waits until the flag is set and clears it: of several waiters one gets it.  WAIT_TIMEOUT after timeout_ns (0: never),
 * WAIT_INTERRUPTED if the host's attend says so. */
enum wait_end flag_take(const struct wait_host *host, const struct patience *patience, struct flag *flag,
                        uint64_t timeout_ns);

#endif
