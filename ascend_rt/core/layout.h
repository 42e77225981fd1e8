/* The job's shared memory: every word in it, who writes it, who reads it, in which order.
 *
 *     control area   struct job, then one struct rank_line per rank of the job, then one struct device_line per device
 *     boards         one struct board per communicator, each followed by its lines, lefts, notifies, notes and channels
 *     windows        one per device: its HBM, as its home rank, device % ranks, sub-allocates it (arena.h)
 *     guest windows  one per device, if there are more ranks than one: cut into equal parts, one for each other rank.
 *                    So every rank that opens a device has memory of it that nobody else sub-allocates
 *
 * The segment is one anonymous file, mapped whole by every rank; it may lie at a different address in each, so
 * shared memory holds offsets into the segment and never pointers.  Fresh pages are zero and zero is a valid
 * initial state of every word below: nobody has to initialise a board, and no rank has to wait for one.
 *
 * Every struct is a multiple of 128 bytes and starts at one: two 64-byte lines, because x86 prefetches lines in
 * pairs and Kunpeng's L3 lines are 128 bytes long.  "One writer" below means one thread of one process.
 */
#ifndef ASCEND_RT_LAYOUT_H
#define ASCEND_RT_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    LINE_NBYTES = 128,
    PAYLOAD_NBYTES = 32,   /* what fits beside the descriptor in one 64-byte line */
    PACKET_NBYTES = 4096,  /* what a round can carry at most: a payload that does not fit the line */
    NOTE_NBYTES = 1024,    /* text that does not fit a line: why a call was refused, where it was made */
    WHERE_NBYTES = 256,
    SLOTS = 2,             /* two suffice, and one does not: tests/core/board_model */
    LAYOUT_VERSION = 4,
};
#define JOB_MAGIC UINT64_C(0x54525f444e454353) /* "SCEND_RT" */

/* ---- notify ------------------------------------------------------------------------------------------------
 *
 * A published number.  Its one writer posts the next number; any rank waits until the number has come.
 *     bits 31..2  the number, modulo 2^30; compared by difference, and no waiter is ever 2^29 behind
 *     bit 1       ROUSED    the writer saw sleepers when it posted this number, and wakes them
 *     bit 0       SLEEPERS  somebody sleeps, or is about to, until this word changes
 * Why no wake-up is lost: the waiter sets SLEEPERS by compare-and-swap on the value it found wanting, and sleeps
 * only while the word is still that value; the writer posts by compare-and-swap, so it either sees the bit and
 * wakes, or has changed the word before the bit was set, and then the waiter's compare-and-swap fails.  Both
 * sides use one read-modify-write of the same word, so there is no order of two words to get wrong.
 * Order: post is a release of all the writer stored before; the waiter's load of a sufficient number acquires it. */
struct notify {
    _Atomic uint32_t word;
};
enum { NOTIFY_SLEEPERS = 1, NOTIFY_ROUSED = 2, NOTIFY_SHIFT = 2 };

/* ---- flag ---------------------------------------------------------------------------------------------------
 *
 * What CANN calls a notify: set by a stream, waited for and cleared by a stream, of any rank that has its key.
 *     0              not set
 *     FLAG_SET       set; clearing it by compare-and-swap is what decides between several waiters
 *     FLAG_SLEEPERS  not set, and somebody sleeps, or is about to, until this word changes
 * Writers: any thread of any rank.  Setting is an exchange, and wakes all if it replaces FLAG_SLEEPERS; a waiter goes from
 * 0 to FLAG_SLEEPERS by compare-and-swap and sleeps only while the word is that.  So a setter either finds the sleeper or
 * has changed the word before it slept.  Who was woken and did not get it puts FLAG_SLEEPERS back before it sleeps again.
 * Order: setting releases what the setter stored before, and clearing acquires it.
 * It lies in device memory, in a block of its own. */
struct flag {
    _Atomic uint32_t word;
};
enum { FLAG_SET = 1, FLAG_SLEEPERS = 2 };

/* ---- export -------------------------------------------------------------------------------------------------
 *
 * What a key of exported device memory, or of a flag, leads to; in a block of device memory of its own, whose place and
 * token the key spells.  Zero when it is made.
 * Writer: the rank that exports.  Readers: ranks that were given the key, by whatever way the program has.
 *     offset, nbytes, kind, open   before it is published
 *     token                        two halves, the second stored last, with release: who acquires both as the key says them
 *                                  sees the rest.  Withdrawing sets them to 0, the second first.
 *     pids                         processes that may import it, unless `open`; filled from the front, each stored once
 *     users                        how many uses of importers are not over, by compare-and-swap; bit 31: withdrawn, and no
 *                                  use begins any more.  Withdrawing sets the bit and finds the uses in one step, so who has
 *                                  begun one before is waited for, and who comes later does not begin.  Publishing again
 *                                  clears it, when no use is left; a record never becomes other memory, because who has an
 *                                  old key still adds to it, finds another token, and takes that back
 * A reader looks at the token again after it has read: one that was withdrawn meanwhile is not believed. */
enum { EXPORT_PIDS = 64 };
struct export {
    _Atomic uint64_t token[2];
    _Atomic uint64_t offset, nbytes; /* in the segment */
    _Atomic uint32_t kind;           /* enum export_kind */
    _Atomic uint32_t open;
    _Atomic uint32_t pids[EXPORT_PIDS];
    _Atomic uint32_t users;
    uint8_t to_line[3 * LINE_NBYTES - 44 - 4 * EXPORT_PIDS];
};
enum { EXPORT_USERS_MASK = 0x7fffffff };
enum export_kind { EXPORT_MEMORY = 1, EXPORT_FLAG = 2 };

/* ---- the control area ---------------------------------------------------------------------------------------
 *
 * The server of the job (hccl-run, or the process alone in a world of one) writes it before the first rank
 * starts; ranks see it by fork or by the handshake on the job's socket.  Constant from then on, but for: */
struct job {
    uint64_t magic;
    uint32_t layout_version;
    uint32_t ranks;             /* of the job */
    uint32_t devices;           /* windows */
    uint32_t reserved;
    uint64_t nbytes;            /* of the whole segment */
    uint64_t boards_offset;
    uint64_t boards_nbytes;
    uint64_t windows_offset;
    uint64_t window_nbytes;
    uint64_t hbm_limit;         /* bytes that may be allocated in all windows together */
    uint64_t hbm_device_limit;  /* and in one */
    _Atomic uint64_t hbm_in_use; /* writers: every rank, fetch-add when it allocates or frees; relaxed, only the sum counts */
    uint8_t to_line[LINE_NBYTES - 88];
};

enum rank_state { RANK_ABSENT, RANK_JOINING, RANK_RUNNING, RANK_LEFT, RANK_DEAD };

struct rank_line {
    /* Writer: the server of the job, and nobody else; when it is gone, any rank that has seen another end, and all of
     * them store the same.  Readers: every rank that waits, after it found its word wanting.
     * `state` is stored last, with release: who acquires DEAD knows that the process's memory map is gone, so it
     * stores nothing any more, and sees cause and stamp. */
    _Atomic uint32_t state;    /* enum rank_state */
    _Atomic int32_t cause;     /* LEFT, DEAD: exit code, or minus the signal's number; INT32_MIN: nobody knows */
    _Atomic uint32_t pid;
    uint32_t reserved;
    _Atomic uint64_t stamp_ns; /* CLOCK_MONOTONIC of the last change of state */
    uint8_t to_line[64 - 24];

    /* Writer: the rank.  Readers: reports.  Relaxed: what they say is a diagnosis, and nothing is concluded from it. */
    _Atomic uint32_t waits_for;        /* rank + 1 while this rank waits and has begun to sleep; 0 else */
    _Atomic uint32_t wait_call;        /* the call it waits in, or failed in */
    _Atomic uint32_t wait_collective;
    _Atomic uint32_t failure;          /* the abort word (below) this rank first failed of; 0: none */
    _Atomic uint64_t wait_since_ns;
    _Atomic uint64_t hbm_in_use;       /* its own part of job.hbm_in_use */
    uint8_t to_line2[64 - 32];
};

struct device_line {
    /* Writers: every rank that has opened the device, fetch-add when it allocates or frees; relaxed, only the sum counts. */
    _Atomic uint64_t hbm_in_use;
    uint8_t to_line[LINE_NBYTES - 8];
};

/* ---- a board ------------------------------------------------------------------------------------------------- */

/* Why a communicator ended: 0 while it has not.
 *     bits 31..24 enum abort_kind; 23..12 the rank at fault + 1; 11..0 the rank that raised it + 1 (0: the server)
 * Writers: any member and the server, compare-and-swap from 0, so the first cause stays. */
enum abort_kind { ABORT_NONE, ABORT_TIMEOUT, ABORT_DEATH, ABORT_LEFT, ABORT_INTERRUPT, ABORT_OVERRUN,
                  ABORT_UNSERVED, /* the server of the job is gone: a rank's end would not be noticed */
                  ABORT_UNREACHED, /* the system does not let a rank reach another's memory any more */
                  ABORT_DESTROYED  /* a rank uses the communicator no more, and may live on */ };
enum { ABORT_KIND_SHIFT = 24, ABORT_RANK_SHIFT = 12, ABORT_RANK_MASK = 0xfff };

struct board {
    /* Readers: every waiter, after it found its word wanting.  Nothing is read behind it, acquire for the cause's stamps. */
    _Atomic uint32_t abort;
    uint8_t to_line[LINE_NBYTES - 4];
    /* What became of the latest call that touches peers' memory: phase << 32 | verdict, where the verdict is 0 (open),
     * VERDICT_COMMIT, or the abort word of who gave up.  `phase` counts committed calls (see struct left), so a word of
     * the phase before means open: nobody can be in the next phase before all have decided this one and left it.
     * Writers: every member, compare-and-swap from open, once per phase.  Acquire and release: who reads a commit
     * made by another has read, through it, that all lines of the round were there. */
    _Atomic uint64_t decision;
    uint8_t to_line2[LINE_NBYTES - 8];
};
enum { VERDICT_OPEN = 0, VERDICT_COMMIT = 1 };

/* What a rank says of its call: compared word for word between the ranks. */
struct descriptor {
    uint32_t call;        /* given at issue, in program order */
    uint8_t collective;   /* HcclCMDType */
    uint8_t dtype;        /* HcclDataType */
    uint8_t op;           /* HcclReduceOp, 4 for avg */
    uint8_t flags;
    uint32_t root;
    uint32_t fingerprint; /* of the chosen plan */
    uint64_t count;       /* elements */
};
/* Of a rank's buffers: STAGED hold one piece of the call's data at a time; PLAIN are not in the segment, and lie at that
 * address of the rank's process; and REACHES: this rank can read and store plain memory of every other. */
enum { STAGED_IN = 1, STAGED_OUT = 2, PLAIN_IN = 4, PLAIN_OUT = 8, REACHES = 16 };
enum { LINE_REFUSED = 1, LINE_NOTE = 2 }; /* flags: the rank's own arguments are wrong; see its note */

/* One rank's line of one round.  Writer: the rank, the fields first (plain stores), then `round` by post.
 * Readers: every member, which loads `round` with acquire and reads the fields only if it is the round it waits for.
 * The writer may fill the slot again, for round + 2, because it has read everybody's line of round + 1, which each
 * wrote after it had read this one. */
struct line {
    struct notify round;
    uint32_t reserved;
    struct descriptor said;
    union {
        uint8_t payload[PAYLOAD_NBYTES];
        struct {
            uint64_t in, out, scratch; /* offsets into the segment, or addresses of PLAIN memory; where blocks differ in
                                          count, scratch is the rank's table, which is part of the line (split.c) */
            uint32_t memory;           /* bits, as above */
        } place;
    };
    uint8_t to_line[LINE_NBYTES - 64];
};

/* A rank's way out of the data phase.  Writer: the rank: `cut_short`, then `phase` by post.  Readers: every member.
 * `secret` and where the rank has it too, in memory of its own, are there before its first line: who finds the one at the
 * other's address can reach that rank, and no stranger of the same process number.  A secret of 0 is none.
 * `phase` counts the committed calls of the communicator, which all members count alike: not the round, since a
 * notify must not fall 2^29 numbers behind and rounds of payload touch no left. */
struct left {
    struct notify phase;
    uint32_t cut_short; /* 1: left early, its part of the data is not complete */
    /* 1: the rank uses this communicator no more.  Writer: the rank, once, when no call of it runs or is queued.  Readers:
     * members that wait for it, after they found their word wanting, as they read its state: acquire, so that they see all
     * that it has posted before. */
    _Atomic uint32_t destroyed;
    uint32_t reserved;
    uint64_t secret, secret_address;
    uint8_t to_line[LINE_NBYTES - 32];
};

/* One direction of one pair.  Writer: the poster, number = how many tokens it has posted.  Reader: the other rank. */
struct pair {
    struct notify posted;
    uint32_t reserved;
    /* On the board of the world, if links are emulated: when the link from the one to the other has carried all that was
     * booked on it so far, CLOCK_MONOTONIC.  Writers: both ranks, any thread, compare-and-swap; relaxed would do, since
     * nothing is concluded from it but how long to sleep. */
    _Atomic uint64_t link_free_ns;
    uint8_t to_line[LINE_NBYTES - 16];
};

/* Text beside a line.  Writer: the rank, before it posts a line that has LINE_NOTE.  Readers: every member of that round. */
struct note {
    char text[NOTE_NBYTES];
};

/* The payload of a line, where it is larger than the line.  Writer: the rank, before it posts the line.  Readers: every
 * member of that round, before it posts its line of the next: so it may be filled again when the line may. */
struct packet {
    uint8_t payload[PACKET_NBYTES];
};

/* ---- channels: Send and Recv, which use no line of the board (its rule 7) -------------------------------------
 *
 * One channel per ordered pair of ranks, a rank paired with itself included.  Its two ends take turns, strictly: the
 * sender makes offer number r, the receiver settles number r, the sender makes offer r + 1.  So one slot is enough for
 * each side: whoever fills its own again has read what the other wrote after having read this.
 * Both ends count rounds alike: a message takes one, and a second one if the ends disagree, in which the sender tells
 * where it was called (channel.c).
 * Nothing here is waited for: who posts a word rings the bell of the other rank behind it. */

/* Writer: the sender: the fields, then `round` with release.  Reader: the receiver, which reads the fields once it has
 * acquired the round it waits for. */
struct offer {
    _Atomic uint32_t round;
    uint32_t reserved;
    struct descriptor said;  /* root: the receiver */
    uint64_t offset;         /* of the elements in the segment, or of the pieces */
    uint64_t piece_count;    /* elements of a piece; 0: the elements lie there all at once */
    _Atomic uint64_t filled; /* round << 32 | pieces filled in it.  Release: the pieces are there */
    uint8_t to_line[LINE_NBYTES - 56];
};

/* Writer: the receiver: the fields, then `settled`.  Reader: the sender. */
struct answer {
    /* round << 32 | enum settlement; a word of an earlier round means open.  Writers: the receiver and, when it gives up,
     * the sender: compare-and-swap from open, once per round, acquire and release; the loser obeys.  So what the receiver
     * has read counts as received exactly if the sender counts it as sent. */
    _Atomic uint64_t settled;
    struct descriptor said;   /* root: the sender */
    _Atomic uint64_t drained; /* round << 32 | pieces read in it.  Release: they may be filled again */
    uint8_t to_line[LINE_NBYTES - 40];
};
enum settlement { SETTLED_OPEN, SETTLED_TAKEN, SETTLED_DIFFERS, SETTLED_WITHDRAWN };

struct channel {
    struct offer offer;
    struct answer answer;
};

/* Text beside an offer or an answer.  Writer: that end, before it posts; reader: the other. */
struct channel_note {
    char where[WHERE_NBYTES];
    char why[NOTE_NBYTES - WHERE_NBYTES]; /* of a refusal */
};

/* Rung by whoever has posted a word of a channel that this rank is an end of, behind the word, and by this rank when the
 * next transfer may have its turn.  Writers: all members, + 1 by compare-and-swap.  Readers: threads of this rank, which
 * look at the bell first, then at all they wait for, then sleep while the bell is what it was: a ring after their look at
 * the words changes the bell, and one before it was behind a word that they have seen. */
struct bell {
    struct notify rung;
    uint8_t to_line[LINE_NBYTES - 4];
};

/* The parts of a board of n ranks follow it in this order:
 *     struct line lines[SLOTS][n]; struct left lefts[n]; struct pair pairs[n][n] (from, to); struct note notes[SLOTS][n];
 *     struct packet packets[SLOTS][n]; struct bell bells[n]; struct channel channels[n][n] (from, to);
 *     struct channel_note channel_notes[n][n][2]: the sender's, the receiver's; most of their pages are never touched */
#define BOARD_NBYTES(n)                                                                                          \
    (sizeof(struct board) +                                                                                      \
     (uint64_t)(n) * (SLOTS * sizeof(struct line) + sizeof(struct left) + SLOTS * sizeof(struct note) +          \
                      SLOTS * sizeof(struct packet) + sizeof(struct bell) +                                      \
                      (uint64_t)(n) * (sizeof(struct pair) + sizeof(struct channel) + 2 * sizeof(struct channel_note))))

_Static_assert(sizeof(struct job) == LINE_NBYTES, "one line pair");
_Static_assert(sizeof(struct rank_line) == LINE_NBYTES, "one line pair");
_Static_assert(sizeof(struct device_line) == LINE_NBYTES, "one line pair");
_Static_assert(sizeof(struct export) == 3 * LINE_NBYTES, "three line pairs");
_Static_assert(sizeof(struct line) == LINE_NBYTES && sizeof(struct left) == LINE_NBYTES, "one line pair");
_Static_assert(sizeof(struct pair) == LINE_NBYTES && sizeof(struct board) == 2 * LINE_NBYTES, "one line pair each");
_Static_assert(sizeof(struct offer) == LINE_NBYTES && sizeof(struct answer) == LINE_NBYTES, "one line pair each");
_Static_assert(sizeof(struct bell) == LINE_NBYTES && sizeof(struct channel_note) == NOTE_NBYTES, "whole line pairs");
_Static_assert(sizeof(struct descriptor) == 24, "no padding: it is compared as memory");

#endif
