#define _GNU_SOURCE
#include "reach.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

typedef ssize_t move_fn(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);

/* The kernel may move less than it was asked to: at most 2 GiB at once. */
static int move_all(move_fn *move, uint32_t pid, char *near, char *far, size_t nbytes)
{
    for (size_t done = 0; done < nbytes;) {
        struct iovec local = {near + done, nbytes - done}, remote = {far + done, nbytes - done};
        ssize_t moved = move((pid_t)pid, &local, 1, &remote, 1, 0);
        if (moved <= 0)
            return moved < 0 ? errno : EFAULT;
        done += (size_t)moved;
    }
    return 0;
}

int reach_read(uint32_t pid, void *to, const void *from, size_t nbytes)
{
    return move_all(process_vm_readv, pid, to, (char *)from, nbytes);
}

int reach_store(uint32_t pid, void *to, const void *from, size_t nbytes)
{
    return move_all(process_vm_writev, pid, (char *)from, to, nbytes);
}

void reach_admit_family(void)
{
    /* Refused where nothing is restricted; whether it was enough is found out by reaching. */
    prctl(PR_SET_PTRACER, (unsigned long)getppid(), 0, 0, 0);
}
