/* Memory of another rank that is not in the segment, read and stored through the kernel. */
#ifndef ASCEND_RT_REACH_H
#define ASCEND_RT_REACH_H

#include <stddef.h>
#include <stdint.h>

/* Both return 0, or an errno: EPERM where the system does not allow it, ESRCH where the process has ended. */
int reach_read(uint32_t pid, void *to, const void *from, size_t nbytes);
int reach_store(uint32_t pid, void *to, const void *from, size_t nbytes);
/* Lets the family of this process do so where the system restricts it to descendants (Yama): the ranks of a job are
 * children of one parent. */
void reach_admit_family(void);

#endif
