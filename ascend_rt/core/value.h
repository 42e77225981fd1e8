/* Values: 64-bit words of device memory that one stream writes and others wait for. */
#ifndef ASCEND_RT_VALUE_H
#define ASCEND_RT_VALUE_H

#include "wait.h"

/* The numbers of CANN's ACL_STREAM_WAIT_VALUE_*. */
enum value_test {
    VALUE_GEQ = 0, /* the word is at least `value` */
    VALUE_EQ = 1,
    VALUE_AND = 2, /* word & value is not 0 */
    VALUE_NOR = 3, /* ~(word | value) is not 0 */
};

/* Publishes what was stored before it. */
void value_write(const struct wait_host *host, _Atomic uint64_t *word, uint64_t value);
/* Waits until the word passes the test.  Also sees a word that was stored by other means, within a millisecond.
 * WAIT_TIMEOUT after timeout_ns (0: never), WAIT_INTERRUPTED if the host's attend says so. */
enum wait_end value_wait(const struct wait_host *host, const struct patience *patience, _Atomic uint64_t *word,
                         enum value_test test, uint64_t value, uint64_t timeout_ns);

#endif
