/* The job's memory: what is mapped where, and which descriptors are refused.
 *
 *     segment good
 *     segment hostile SEED ROUNDS
 *     segment small_address_space        not under a sanitizer, which needs address space itself */
#define _GNU_SOURCE
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dice.h"
#include "expect.h"
#include "order.h"

enum { MIB = 1 << 20 };
static const struct segment_sizes small = {.ranks = 3, .devices = 2, .window_nbytes = 4 * MIB, .hbm_limit = 7 * MIB,
                                           .hbm_device_limit = 4 * MIB};

static struct segment created(void)
{
    struct segment segment;
    EXPECT_EQUAL(segment_create(&segment, &small), 0);
    return segment;
}

static void unmap(struct segment *segment)
{
    EXPECT_EQUAL(close(segment->fd), 0);
    EXPECT_EQUAL(munmap(segment->base, segment->job->nbytes), 0);
}

/* ---- good ---- */

static void parts_lie_in_order(void)
{
    struct segment segment = created();
    const uint32_t n = small.ranks;
    struct board *board = segment_world_board(&segment);
    unsigned char *places[] = {
        segment.base + sizeof(struct job),
        (unsigned char *)(segment_rank(&segment, n - 1) + 1),
        (unsigned char *)(segment_device(&segment, small.devices - 1) + 1),
        (unsigned char *)board,
        (unsigned char *)(board + 1),
        (unsigned char *)(board_line(board, n, SLOTS - 1, n - 1) + 1),
        (unsigned char *)(board_left(board, n, n - 1) + 1),
        (unsigned char *)(board_pair(board, n, n - 1, n - 1) + 1),
        (unsigned char *)(board_note(board, n, SLOTS - 1, n - 1) + 1),
        (unsigned char *)(board_packet(board, n, SLOTS - 1, n - 1) + 1),
        (unsigned char *)board + BOARD_NBYTES(n),
        (unsigned char *)board + segment.job->boards_nbytes,
        segment_window(&segment, 0),
        segment_window(&segment, 1) + small.window_nbytes,
    };
    for (size_t i = 1; i < sizeof places / sizeof *places; i++)
        EXPECT(places[i - 1] <= places[i]);
    EXPECT(board_line(board, n, 0, 0) == (struct line *)(board + 1));
    EXPECT(segment_window(&segment, 1) - segment_window(&segment, 0) == (ptrdiff_t)small.window_nbytes);
    EXPECT(segment_window(&segment, 1) + 3 * small.window_nbytes == segment.base + segment.job->nbytes);
    for (uint64_t i = sizeof(struct job); i < segment.job->windows_offset; i++)
        EXPECT_EQUAL(segment.base[i], 0);
    unmap(&segment);
}

/* What a rank sub-allocates of a device is nobody else's, and an address in it tells the device. */
static void parts_of_ranks_are_apart(void)
{
    struct segment segment = created();
    enum { PARTS = 6 };
    uint64_t starts[PARTS], sizes[PARTS];
    for (uint32_t i = 0; i < PARTS; i++) {
        uint32_t device = i / small.ranks, rank = i % small.ranks;
        starts[i] = segment_part(&segment, device, rank, &sizes[i]);
        EXPECT_EQUAL(sizes[i], rank == device ? small.window_nbytes : small.window_nbytes / 2);
        EXPECT_EQUAL(segment_device_at(&segment, starts[i]), device);
        EXPECT_EQUAL(segment_device_at(&segment, starts[i] + sizes[i] - 1), device);
        EXPECT(starts[i] + sizes[i] <= segment.job->nbytes);
        for (uint32_t j = 0; j < i; j++)
            EXPECT(starts[i] + sizes[i] <= starts[j] || starts[j] + sizes[j] <= starts[i]);
    }
    EXPECT_EQUAL(segment_device_at(&segment, segment.job->windows_offset - 1), small.devices);
    EXPECT_EQUAL(segment_device_at(&segment, segment.job->nbytes), small.devices);
    unmap(&segment);
}

static void a_rank_alone_has_whole_windows(void)
{
    struct segment_sizes sizes = small;
    sizes.ranks = 1;
    struct segment segment;
    EXPECT_EQUAL(segment_create(&segment, &sizes), 0);
    uint64_t nbytes;
    EXPECT_EQUAL(segment_part(&segment, 1, 0, &nbytes), segment.job->windows_offset + sizes.window_nbytes);
    EXPECT_EQUAL(nbytes, sizes.window_nbytes);
    EXPECT_EQUAL(segment.job->nbytes, segment.job->windows_offset + 2 * sizes.window_nbytes);
    unmap(&segment);
}

/* A board that is wiped is fresh in every mapping; offsets that lead to none are refused. */
static void boards_of_groups(const struct segment *segment, const struct segment *other)
{
    uint64_t nbytes, first = segment_group_boards(segment, &nbytes), last = first + nbytes / 4096 * 4096 - 4096;
    uint32_t n = segment->job->ranks;
    EXPECT_EQUAL(first + nbytes, segment->job->boards_offset + segment->job->boards_nbytes);
    struct board *board = segment_group_board(segment, first, 2), *theirs = segment_group_board(other, first, 2);
    EXPECT((unsigned char *)board == segment->base + first && board != segment_world_board(segment));
    EXPECT(board_raise_abort(board, ABORT_DEATH, 1, 0) && load_acquire(&theirs->abort) && nbytes > 8 * BOARD_NBYTES(n));
    EXPECT_EQUAL(segment_wipe(segment, first, BOARD_NBYTES(2)), 0);
    EXPECT(!load_acquire(&board->abort) && !load_acquire(&theirs->abort));
    const uint64_t none[][2] = {{first, 0}, {first, n + 1}, {first - 4096, 1}, {first + 128, 1}, {last, n}, {first + nbytes, 1},
                                {UINT64_MAX - 4095, 1}, {0, 1}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        EXPECT(!segment_group_board(segment, none[i][0], (uint32_t)none[i][1]));
}

static void attached_mapping_sees_the_same_data(void)
{
    struct segment segment = created(), other;
    EXPECT_EQUAL(segment_attach(&other, segment.fd), 0);
    EXPECT(other.base != segment.base && other.fd != segment.fd);
    for (uint32_t i = 0; i < small.devices; i++)
        memset(segment_window(&segment, i), (int)i + 1, small.window_nbytes);
    EXPECT_EQUAL(segment_window(&other, 0)[0], 1);
    EXPECT_EQUAL(segment_window(&other, 1)[small.window_nbytes - 1], 2);
    EXPECT(board_raise_abort(segment_world_board(&other), ABORT_DEATH, 1, 0));
    EXPECT(!board_raise_abort(segment_world_board(&segment), ABORT_TIMEOUT, 2, 3));
    boards_of_groups(&segment, &other);
    EXPECT_EQUAL(segment_world_board(&segment)->abort, ABORT_DEATH << ABORT_KIND_SHIFT | 2 << ABORT_RANK_SHIFT);
    EXPECT(!memcmp(segment.job, other.job, sizeof *segment.job));
    unmap(&segment);
    EXPECT_EQUAL(segment_window(&other, 0)[0], 1);
    unmap(&other);
}

static void size_is_sealed(void)
{
    struct segment segment = created();
    off_t nbytes = (off_t)segment.job->nbytes;
    EXPECT(ftruncate(segment.fd, nbytes - 4096) < 0 && errno == EPERM);
    EXPECT(ftruncate(segment.fd, nbytes + 4096) < 0 && errno == EPERM);
    EXPECT(fcntl(segment.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0 && errno == EPERM);
    EXPECT(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC);
    unmap(&segment);
}

static void sizes_that_make_no_segment(void)
{
    struct segment segment;
    struct segment_sizes sizes[8];
    for (int i = 0; i < 8; i++)
        sizes[i] = small;
    sizes[0].ranks = 0;
    sizes[1].ranks = ABORT_RANK_MASK;
    sizes[2].ranks = UINT32_MAX;
    sizes[3].devices = 0;
    sizes[4].window_nbytes = 2 * MIB + 4096;
    sizes[5].window_nbytes = UINT64_C(1) << 62;
    sizes[6].devices = UINT32_MAX, sizes[6].window_nbytes = UINT64_C(1) << 40;
    sizes[7].window_nbytes = UINT64_MAX - 2 * MIB + 1;
    for (int i = 0; i < 8; i++)
        EXPECT_EQUAL(segment_create(&segment, &sizes[i]), EINVAL);
    struct segment_sizes huge = small;
    huge.window_nbytes = UINT64_C(1) << 60; /* a file can be so large, an address space cannot */
    int error = segment_create(&segment, &huge);
    EXPECT(error == ENOMEM || error == EFBIG || error == EINVAL);
}

/* ---- hostile ---- */

/* A sealed file of this size that begins with these bytes. */
static int forged(const void *header, size_t header_nbytes, off_t file_nbytes, int seals)
{
    int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT(fd >= 0);
    EXPECT_EQUAL(ftruncate(fd, file_nbytes), 0);
    EXPECT_EQUAL(pwrite(fd, header, header_nbytes, 0), header_nbytes);
    EXPECT_EQUAL(ftruncate(fd, file_nbytes), 0);
    EXPECT_EQUAL(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

enum { SEALED = F_SEAL_SHRINK | F_SEAL_GROW };

static int attach_forged(const struct job *header, off_t file_nbytes, int seals)
{
    struct segment segment;
    int fd = forged(header, sizeof *header, file_nbytes, seals);
    int error = segment_attach(&segment, fd);
    close(fd);
    if (error)
        return error;
    /* Accepted: then everything that the header leads to lies inside, aligned. */
    const struct job *job = segment.job;
    uint64_t board = (uint64_t)((unsigned char *)segment_world_board(&segment) - segment.base);
    uint64_t last = (uint64_t)(segment_window(&segment, job->devices - 1) - segment.base);
    EXPECT(board >= sizeof *job + job->ranks * sizeof(struct rank_line) && board % LINE_NBYTES == 0);
    EXPECT(board + BOARD_NBYTES(job->ranks) <= job->windows_offset);
    EXPECT(job->windows_offset % 4096 == 0 && job->window_nbytes % 4096 == 0);
    EXPECT(last <= (uint64_t)file_nbytes && job->window_nbytes <= (uint64_t)file_nbytes - last);
    munmap(segment.base, (size_t)file_nbytes);
    close(segment.fd);
    return 0;
}

static void descriptors_that_are_no_file_of_ours(void)
{
    struct segment segment;
    int pipes[2], null = open("/dev/null", O_RDWR);
    EXPECT_EQUAL(pipe(pipes), 0);
    EXPECT_EQUAL(segment_attach(&segment, -1), EBADF);
    EXPECT_EQUAL(segment_attach(&segment, null), EPROTO);
    EXPECT_EQUAL(segment_attach(&segment, pipes[0]), EPROTO);
    close(pipes[0]);
    close(pipes[1]);
    close(null);
}

static void headers_of_another_size_or_version(const struct job *good, off_t nbytes)
{
    struct job wrong = *good;
    EXPECT_EQUAL(attach_forged(good, nbytes, SEALED), 0);
    EXPECT_EQUAL(attach_forged(good, nbytes, F_SEAL_SHRINK), EPROTO);
    EXPECT_EQUAL(attach_forged(good, nbytes, F_SEAL_GROW), EPROTO);
    EXPECT_EQUAL(attach_forged(good, nbytes - 4096, SEALED), EPROTO);
    EXPECT_EQUAL(attach_forged(good, nbytes + 4096, SEALED), EPROTO);
    EXPECT_EQUAL(attach_forged(good, sizeof *good, SEALED), EPROTO);
    int fd = forged(good, 100, 100, SEALED); /* not even a header */
    struct segment segment;
    EXPECT_EQUAL(segment_attach(&segment, fd), EPROTO);
    close(fd);
    wrong.magic++;
    EXPECT_EQUAL(attach_forged(&wrong, nbytes, SEALED), EPROTO);
    wrong = *good;
    wrong.layout_version++;
    EXPECT_EQUAL(attach_forged(&wrong, nbytes, SEALED), EPROTO);
}

/* Every field of the header that leads somewhere, with values that make sums and products wrap. */
static void set_field(struct job *job, uint32_t field, uint64_t value)
{
    uint64_t *const wide[] = {&job->boards_offset, &job->boards_nbytes, &job->windows_offset, &job->window_nbytes};
    switch (field) {
    case 0: job->ranks = (uint32_t)value; break;
    case 1: job->devices = (uint32_t)value; break;
    default: *wide[field - 2] = value; break;
    }
}

static void headers_that_lead_outside(const struct job *good, off_t nbytes, struct dice *dice, uint64_t rounds)
{
    const uint64_t interesting[] = {0, 1, 127, UINT32_MAX, UINT64_C(1) << 60, UINT64_C(1) << 63, UINT64_MAX,
                                    UINT64_MAX - 4095, (uint64_t)nbytes, (uint64_t)nbytes - 1, (uint64_t)nbytes / 2,
                                    good->windows_offset, good->windows_offset - 8, good->boards_offset + 8,
                                    good->window_nbytes * 2};
    const uint32_t ninteresting = sizeof interesting / sizeof *interesting;
    uint64_t accepted = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        struct job job = *good;
        for (uint32_t changes = 1 + roll_below(dice, 3); changes; changes--)
            set_field(&job, roll_below(dice, 6), interesting[roll_below(dice, ninteresting)]);
        if (roll_below(dice, 2))
            ((unsigned char *)&job)[roll_below(dice, sizeof job)] ^= (unsigned char)(1 << roll_below(dice, 8));
        int error = attach_forged(&job, nbytes, SEALED);
        EXPECT(error == 0 || error == EPROTO);
        accepted += !error;
    }
    printf("%" PRIu64 " of %" PRIu64 " forged headers are harmless\n", accepted, rounds);
}

/* A file as large as its header says, and larger than any address space. */
static void consistent_but_huge(const struct job *good)
{
    struct job huge = *good;
    huge.nbytes = UINT64_C(1) << 60;
    EXPECT_EQUAL(attach_forged(&huge, (off_t)huge.nbytes, SEALED), ENOMEM);
}

int main(int argc, char **argv)
{
    EXPECT(argc > 1);
    if (!strcmp(argv[1], "good")) {
        parts_lie_in_order();
        parts_of_ranks_are_apart();
        a_rank_alone_has_whole_windows();
        attached_mapping_sees_the_same_data();
        size_is_sealed();
        sizes_that_make_no_segment();
    } else if (!strcmp(argv[1], "hostile")) {
        EXPECT_EQUAL(argc, 4);
        struct segment segment = created();
        struct job good = *segment.job;
        struct dice dice = {strtoull(argv[2], NULL, 0)};
        descriptors_that_are_no_file_of_ours();
        headers_of_another_size_or_version(&good, (off_t)good.nbytes);
        headers_that_lead_outside(&good, (off_t)good.nbytes, &dice, strtoull(argv[3], NULL, 0));
        consistent_but_huge(&good);
        unmap(&segment);
    } else {
        struct segment segment = created(), other;
        struct rlimit limit = {512 * MIB, 512 * MIB};
        struct segment_sizes sizes = small;
        sizes.window_nbytes = 512 * MIB;
        EXPECT_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
        EXPECT_EQUAL(segment_create(&other, &sizes), ENOMEM);
        EXPECT_EQUAL(segment_attach(&other, segment.fd), 0);
        unmap(&other);
        unmap(&segment);
    }
    return 0;
}
