/* Views against a plain walk over all indices: random shapes and strides, pieces from any offset.
 *
 *     views SEED CASES
 */
#include <string.h>

#include "dice.h"
#include "expect.h"
#include "view.h"

enum { MOST_NDIM = 6, AREA_NBYTES = 1 << 16 };

struct array {
    size_t item_nbytes;
    int ndim;
    int64_t shape[MOST_NDIM], strides[MOST_NDIM];
    int64_t lowest; /* offset of the lowest byte from the base: strides may be negative */
    uint64_t count;
};

/* Dimensions in random order of nesting, each with a stride that leaves room for what it contains, or, for reading, 0. */
static struct array draw_array(struct dice *dice, bool for_storing)
{
    struct array array = {.item_nbytes = (size_t)1 << roll_below(dice, 4), .count = 1};
    array.ndim = (int)roll_below(dice, MOST_NDIM + 1);
    int order[MOST_NDIM];
    for (int i = 0; i < array.ndim; i++)
        order[i] = i;
    for (int i = array.ndim - 1; i > 0 && roll_below(dice, 2); i--) {
        int other = (int)roll_below(dice, (uint64_t)i + 1), swapped = order[i];
        order[i] = order[other];
        order[other] = swapped;
    }
    int64_t extent = (int64_t)array.item_nbytes;
    for (int i = array.ndim - 1; i >= 0; i--) {
        int dimension = order[i];
        int64_t length = roll_below(dice, 20) ? 1 + roll_below(dice, 4) : 0, gap = 0;
        if (roll_below(dice, 3) == 0)
            gap = (int64_t)(roll_below(dice, 3) * array.item_nbytes);
        bool repeats = !for_storing && roll_below(dice, 8) == 0;
        int64_t stride = repeats ? 0 : extent + gap;
        array.shape[dimension] = length;
        array.count *= (uint64_t)length;
        extent += length > 0 ? (length - 1) * stride : 0;
        if (roll_below(dice, 4) == 0) {
            array.strides[dimension] = -stride;
            array.lowest -= length > 0 ? (length - 1) * stride : 0;
        } else {
            array.strides[dimension] = stride;
        }
    }
    EXPECT(extent < AREA_NBYTES);
    return array;
}

/* Offset of element `index` from the base. */
static int64_t offset_of(const struct array *array, uint64_t index)
{
    int64_t offset = 0;
    for (int i = array->ndim - 1; i >= 0; i--) {
        offset += (int64_t)(index % (uint64_t)array->shape[i]) * array->strides[i];
        index /= (uint64_t)array->shape[i];
    }
    return offset;
}

static void fill(struct dice *dice, unsigned char *area)
{
    for (size_t i = 0; i < AREA_NBYTES; i++)
        area[i] = (unsigned char)roll(dice);
}

static void check_reading(struct dice *dice, const struct array *array, const struct view *view, const unsigned char *base)
{
    uint64_t first = roll_below(dice, array->count + 1), count = roll_below(dice, array->count - first + 1);
    size_t item = array->item_nbytes;
    unsigned char *got = malloc(count * item + 1);
    EXPECT(got != NULL);
    got[count * item] = 99;
    view_read(view, first, count, got);
    for (uint64_t i = 0; i < count; i++)
        EXPECT(!memcmp(got + i * item, base + offset_of(array, first + i), item));
    EXPECT_EQUAL(got[count * item], 99);
    free(got);
}

/* All other bytes of the area stay as they were. */
static void check_storing(struct dice *dice, const struct array *array, const struct view *view, unsigned char *area,
                          unsigned char *base)
{
    static unsigned char from[AREA_NBYTES], wanted[AREA_NBYTES];
    uint64_t first = roll_below(dice, array->count + 1), count = roll_below(dice, array->count - first + 1);
    size_t item = array->item_nbytes;
    EXPECT(count * item <= sizeof from);
    fill(dice, from);
    memcpy(wanted, area, AREA_NBYTES);
    for (uint64_t i = 0; i < count; i++)
        memcpy(wanted + (base - area) + offset_of(array, first + i), from + i * item, item);
    view_store(view, first, count, from);
    EXPECT(!memcmp(wanted, area, AREA_NBYTES));
}

static bool is_contiguous(const struct array *array)
{
    int64_t expected = (int64_t)array->item_nbytes;
    for (int i = array->ndim - 1; i >= 0; i--) {
        if (array->shape[i] != 1 && array->strides[i] != expected)
            return false;
        expected *= array->shape[i];
    }
    return true;
}

static void check_case(struct dice *dice)
{
    static unsigned char area[AREA_NBYTES];
    bool stores = roll_below(dice, 2);
    struct array array = draw_array(dice, stores);
    struct dimensions dimensions;
    struct view view;
    unsigned char *base = area - array.lowest;
    fill(dice, area);
    EXPECT(view_strided(&view, &dimensions, base, array.item_nbytes, array.ndim, array.shape, array.strides));
    if (array.count > 0)
        EXPECT_EQUAL(view.ndim == 0, is_contiguous(&array));
    for (int piece = 0; piece < 5; piece++)
        if (stores)
            check_storing(dice, &array, &view, area, base);
        else
            check_reading(dice, &array, &view, base);
}

/* More dimensions than fit, which can be joined, or not. */
static void check_many_dimensions(void)
{
    enum { NDIM = MOST_DIMENSIONS + 1 };
    unsigned char area[1 << NDIM];
    int64_t shape[NDIM], joined[NDIM], apart[NDIM];
    struct dimensions dimensions;
    struct view view;
    for (int i = 0; i < NDIM; i++) {
        shape[i] = 2;
        joined[i] = 1 << (NDIM - 1 - i);
        apart[i] = 3 * joined[i] - (i % 2);
    }
    EXPECT(view_strided(&view, &dimensions, area, 1, NDIM, shape, joined));
    EXPECT_EQUAL(view.ndim, 0);
    EXPECT(!view_strided(&view, &dimensions, area, 1, NDIM, shape, apart));
    EXPECT(view_strided(&view, &dimensions, area, 1, MOST_DIMENSIONS, shape, apart));
}

int main(int argc, char **argv)
{
    EXPECT_EQUAL(argc, 3);
    uint64_t seed = strtoull(argv[1], NULL, 0), cases = strtoull(argv[2], NULL, 0);
    struct dice dice = {seed};
    check_many_dimensions();
    for (uint64_t i = 0; i < cases; i++)
        check_case(&dice);
    printf("views, seed %" PRIu64 ": %" PRIu64 " cases\n", seed, cases);
    return 0;
}
