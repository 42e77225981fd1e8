/* The job's memory, mapped: made by the server of the job, found by its descriptor by everyone else. */
#ifndef ASCEND_RT_SEGMENT_H
#define ASCEND_RT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "layout.h"

struct segment {
    int fd;
    unsigned char *base; /* of the mapping in this process */
    struct job *job;     /* at base */
};

struct segment_sizes {
    uint32_t ranks, devices;
    uint64_t window_nbytes; /* a multiple of 2 MiB */
    uint64_t hbm_limit, hbm_device_limit;
};

/* Both return 0, or an errno: EINVAL for sizes that make no segment, EPROTO for a descriptor that holds none. */
int segment_create(struct segment *segment, const struct segment_sizes *sizes);
int segment_attach(struct segment *segment, int fd);

struct rank_line *segment_rank(const struct segment *segment, uint32_t rank);
struct device_line *segment_device(const struct segment *segment, uint32_t device);
struct board *segment_world_board(const struct segment *segment);
/* The board of `ranks` ranks at an offset that the server has given out; NULL if none can be there. */
struct board *segment_group_board(const struct segment *segment, uint64_t offset, uint32_t ranks);
/* Where the boards of groups lie, as an offset into the segment: *nbytes bytes. */
uint64_t segment_group_boards(const struct segment *segment, uint64_t *nbytes);
/* Makes the pages of a board fresh again, once no rank has it any more; 0 or an errno. */
int segment_wipe(const struct segment *segment, uint64_t offset, uint64_t nbytes);
unsigned char *segment_window(const struct segment *segment, uint32_t device);
/* Where a rank sub-allocates a device, as an offset into the segment: *nbytes bytes. */
uint64_t segment_part(const struct segment *segment, uint32_t device, uint32_t rank, uint64_t *nbytes);
/* The device whose memory an offset lies in; the number of devices if it lies in none's. */
uint32_t segment_device_at(const struct segment *segment, uint64_t offset);

/* The parts of a board of `n` ranks. */
struct line *board_line(struct board *board, uint32_t n, uint32_t slot, uint32_t rank);
struct left *board_left(struct board *board, uint32_t n, uint32_t rank);
struct pair *board_pair(struct board *board, uint32_t n, uint32_t from, uint32_t to);
struct note *board_note(struct board *board, uint32_t n, uint32_t slot, uint32_t rank);
struct packet *board_packet(struct board *board, uint32_t n, uint32_t slot, uint32_t rank);
struct bell *board_bell(struct board *board, uint32_t n, uint32_t rank);
struct channel *board_channel(struct board *board, uint32_t n, uint32_t from, uint32_t to);
/* side 0: the sender's, 1: the receiver's */
struct channel_note *board_channel_note(struct board *board, uint32_t n, uint32_t from, uint32_t to, uint32_t side);

/* Ends a communicator; false if it had ended before, and then the first cause stays. */
bool board_raise_abort(struct board *board, enum abort_kind kind, uint32_t culprit, uint32_t raiser_plus_1);

#endif
