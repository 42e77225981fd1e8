#define _GNU_SOURCE
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "order.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

/* Where the mapping goes if nothing is there: equal addresses in all ranks make core dumps easy to read. */
#define PREFERRED_BASE ((void *)UINT64_C(0x200000000000))
#define MIB ((uint64_t)1 << 20)

/* Address space for the boards of groups: for a thousand of the largest, or as many as fit a gibibyte, but never for
 * less than a few. */
enum { GROUPS_MOST = 1024, GROUPS_LEAST = 8 };
#define GROUPS_NBYTES ((uint64_t)1 << 30)
#define PAGE_NBYTES ((uint64_t)4096)

/* Where ranks sub-allocate: apart from each other by whole pages. */
#define PART_UNIT ((uint64_t)4096)

static uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

static int anonymous_file(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("ascend_rt", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("ascend_rt", flags);
    return fd;
}

static int map_segment(struct segment *segment, int fd, uint64_t nbytes)
{
    void *base = mmap(PREFERRED_BASE, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return errno;
    segment->fd = fd;
    segment->base = base;
    segment->job = base;
    return 0;
}

static uint64_t control_nbytes(uint32_t ranks, uint32_t devices)
{
    return sizeof(struct job) + (uint64_t)ranks * sizeof(struct rank_line) + (uint64_t)devices * sizeof(struct device_line);
}

static uint64_t windows_per_device(uint32_t ranks) { return ranks > 1 ? 2 : 1; }

static uint64_t boards_nbytes_for(uint32_t ranks)
{
    uint64_t board = round_up(BOARD_NBYTES(ranks), PAGE_NBYTES);
    uint64_t most = GROUPS_MOST * board < GROUPS_NBYTES ? GROUPS_MOST * board : GROUPS_NBYTES;
    return board + (most > GROUPS_LEAST * board ? most : GROUPS_LEAST * board);
}

/* False if that is more than 64 bits hold. */
static bool windows_nbytes(const struct segment_sizes *sizes, uint64_t *nbytes)
{
    return !__builtin_mul_overflow(sizes->window_nbytes, sizes->devices * windows_per_device(sizes->ranks), nbytes);
}

int segment_create(struct segment *segment, const struct segment_sizes *sizes)
{
    if (sizes->ranks == 0 || sizes->ranks >= ABORT_RANK_MASK || sizes->devices == 0 || sizes->window_nbytes % (2 * MIB))
        return EINVAL;
    uint64_t boards_offset = round_up(control_nbytes(sizes->ranks, sizes->devices), 4096);
    uint64_t boards_nbytes = boards_nbytes_for(sizes->ranks);
    uint64_t windows_offset = round_up(boards_offset + boards_nbytes, 2 * MIB);
    uint64_t nbytes;
    if (!windows_nbytes(sizes, &nbytes) || nbytes > INT64_MAX - windows_offset)
        return EINVAL;
    nbytes += windows_offset;

    int fd = anonymous_file();
    if (fd < 0)
        return errno;
    int error = ftruncate(fd, (off_t)nbytes) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0
                    ? errno
                    : map_segment(segment, fd, nbytes);
    if (error) {
        close(fd);
        return error;
    }
    struct job *job = segment->job;
    job->layout_version = LAYOUT_VERSION;
    job->ranks = sizes->ranks;
    job->devices = sizes->devices;
    job->nbytes = nbytes;
    job->boards_offset = boards_offset;
    job->boards_nbytes = boards_nbytes;
    job->windows_offset = windows_offset;
    job->window_nbytes = sizes->window_nbytes;
    job->hbm_limit = sizes->hbm_limit;
    job->hbm_device_limit = sizes->hbm_device_limit;
    job->magic = JOB_MAGIC;
    return 0;
}

/* Offsets that a damaged or foreign header could hold must not lead outside of the file. */
static bool is_consistent(const struct job *job, uint64_t file_nbytes)
{
    const struct segment_sizes sizes = {.ranks = job->ranks, .devices = job->devices, .window_nbytes = job->window_nbytes};
    uint64_t nbytes;
    return job->magic == JOB_MAGIC && job->layout_version == LAYOUT_VERSION && job->nbytes == file_nbytes &&
           job->ranks > 0 && job->ranks < ABORT_RANK_MASK && job->devices > 0 &&
           job->boards_offset >= control_nbytes(job->ranks, job->devices) &&
           job->boards_offset < file_nbytes && job->boards_nbytes >= round_up(BOARD_NBYTES(job->ranks), PAGE_NBYTES) &&
           job->windows_offset < file_nbytes && job->boards_nbytes <= job->windows_offset &&
           job->boards_offset <= job->windows_offset - job->boards_nbytes &&
           job->boards_offset % LINE_NBYTES == 0 && job->windows_offset % (2 * MIB) == 0 &&
           job->window_nbytes % (2 * MIB) == 0 &&
           windows_nbytes(&sizes, &nbytes) && nbytes <= file_nbytes - job->windows_offset;
}

int segment_attach(struct segment *segment, int fd)
{
    struct stat file;
    struct job header;
    if (fstat(fd, &file) < 0)
        return errno;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
        return EPROTO;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header || !is_consistent(&header, (uint64_t)file.st_size))
        return EPROTO;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return errno;
    int error = map_segment(segment, own, header.nbytes);
    if (error)
        close(own);
    return error;
}

struct rank_line *segment_rank(const struct segment *segment, uint32_t rank)
{
    return (struct rank_line *)(segment->base + sizeof(struct job)) + rank;
}

struct device_line *segment_device(const struct segment *segment, uint32_t device)
{
    return (struct device_line *)segment_rank(segment, segment->job->ranks) + device;
}

struct board *segment_world_board(const struct segment *segment)
{
    return (struct board *)(segment->base + segment->job->boards_offset);
}

uint64_t segment_group_boards(const struct segment *segment, uint64_t *nbytes)
{
    uint64_t world = round_up(BOARD_NBYTES(segment->job->ranks), PAGE_NBYTES);
    *nbytes = segment->job->boards_nbytes - world;
    return segment->job->boards_offset + world;
}

struct board *segment_group_board(const struct segment *segment, uint64_t offset, uint32_t ranks)
{
    uint64_t nbytes, first = segment_group_boards(segment, &nbytes);
    bool fits = ranks > 0 && ranks <= segment->job->ranks && offset >= first && offset % PAGE_NBYTES == 0 &&
                offset - first <= nbytes && BOARD_NBYTES(ranks) <= nbytes - (offset - first);
    return fits ? (struct board *)(segment->base + offset) : NULL;
}

int segment_wipe(const struct segment *segment, uint64_t offset, uint64_t nbytes)
{
    int flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    return fallocate(segment->fd, flags, (off_t)offset, (off_t)round_up(nbytes, PAGE_NBYTES)) < 0 ? errno : 0;
}

unsigned char *segment_window(const struct segment *segment, uint32_t device)
{
    return segment->base + segment->job->windows_offset + device * segment->job->window_nbytes;
}

uint64_t segment_part(const struct segment *segment, uint32_t device, uint32_t rank, uint64_t *nbytes)
{
    const struct job *job = segment->job;
    uint32_t home = device % job->ranks;
    uint64_t window = job->windows_offset + device * job->window_nbytes;
    *nbytes = job->window_nbytes;
    if (rank == home)
        return window;
    uint64_t guest = (rank + job->ranks - home) % job->ranks - 1;
    *nbytes = job->window_nbytes / (job->ranks - 1) / PART_UNIT * PART_UNIT;
    return window + job->devices * job->window_nbytes + guest * *nbytes;
}

uint32_t segment_device_at(const struct segment *segment, uint64_t offset)
{
    const struct job *job = segment->job;
    uint64_t windows = job->devices * windows_per_device(job->ranks);
    if (offset < job->windows_offset || offset - job->windows_offset >= windows * job->window_nbytes)
        return job->devices;
    return (uint32_t)((offset - job->windows_offset) / job->window_nbytes % job->devices);
}

struct line *board_line(struct board *board, uint32_t n, uint32_t slot, uint32_t rank)
{
    return (struct line *)(board + 1) + (size_t)slot * n + rank;
}

struct left *board_left(struct board *board, uint32_t n, uint32_t rank)
{
    return (struct left *)board_line(board, n, SLOTS, 0) + rank;
}

struct pair *board_pair(struct board *board, uint32_t n, uint32_t from, uint32_t to)
{
    return (struct pair *)board_left(board, n, n) + (size_t)from * n + to;
}

struct note *board_note(struct board *board, uint32_t n, uint32_t slot, uint32_t rank)
{
    return (struct note *)board_pair(board, n, n, 0) + (size_t)slot * n + rank;
}

struct packet *board_packet(struct board *board, uint32_t n, uint32_t slot, uint32_t rank)
{
    return (struct packet *)board_note(board, n, SLOTS, 0) + (size_t)slot * n + rank;
}

struct bell *board_bell(struct board *board, uint32_t n, uint32_t rank)
{
    return (struct bell *)board_packet(board, n, SLOTS, 0) + rank;
}

struct channel *board_channel(struct board *board, uint32_t n, uint32_t from, uint32_t to)
{
    return (struct channel *)board_bell(board, n, n) + (size_t)from * n + to;
}

struct channel_note *board_channel_note(struct board *board, uint32_t n, uint32_t from, uint32_t to, uint32_t side)
{
    return (struct channel_note *)board_channel(board, n, n, 0) + 2 * ((size_t)from * n + to) + side;
}

bool board_raise_abort(struct board *board, enum abort_kind kind, uint32_t culprit, uint32_t raiser_plus_1)
{
    uint32_t none = 0;
    uint32_t cause = (uint32_t)kind << ABORT_KIND_SHIFT | (culprit + 1) << ABORT_RANK_SHIFT | raiser_plus_1;
    return swap_if_equal(&board->abort, &none, cause);
}
