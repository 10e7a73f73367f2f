#include "data/augment.h"

#include <stddef.h>
#include <string.h>

#include "core/token.h"
#include "data/picture.h"

#define AT(field) offsetof(Augment, field)
const ConfigKey augment_picture_keys[] = {
    {"flip", KEY_BOOL, AT(flip), "true", 0, 0, NULL, "mirrored left to right, every second time"},
    {"shift", KEY_INT, AT(shift), "4", 0, 16, NULL, "shifted by up to so many pixels each way"},
    {0},
};
const ConfigKey augment_symmetry_keys[] = {
    {"flip", KEY_BOOL, AT(flip), "true", 0, 0, NULL,
     "mirrored too, left to right and top to bottom; false: rows and columns swapped, no more"},
    {0},
};
const ConfigKey augment_drop_keys[] = {
    {"drop", KEY_REAL, AT(drop), "0.1", 0, 0.95, NULL, "share of tokens that are masked"},
    {0},
};

RngKey augment_key(uint64_t seed, int64_t epoch, int example, int document) {
    RngKey key = rng_subkey(rng_subkey_name(rng_key(seed), "augment"), (uint64_t)epoch);
    return rng_subkey(rng_subkey(key, (uint64_t)example), (uint64_t)document);
}

/* Of a square picture; 0: it is none, and is left as it is. */
static int side_of(int n) {
    const int side = picture_side(n);
    return (int64_t)side * side == n ? side : 0;
}

void augment_picture(const Augment *a, int *ids, int n, int *scratch, RngKey key) {
    const int side = side_of(n), ways = 2 * a->shift + 1;
    const bool mirror = a->flip && rng_below(key, 0, 2);
    const int down = (int)rng_below(key, 1, (uint32_t)ways) - a->shift;
    const int right = (int)rng_below(key, 2, (uint32_t)ways) - a->shift;
    memcpy(scratch, ids, (size_t)n * sizeof *ids);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            const int from_y = y - down, shifted = x - right;
            const int from_x = mirror ? side - 1 - shifted : shifted;
            const bool inside = from_y >= 0 && from_y < side && from_x >= 0 && from_x < side;
            ids[y * side + x] = inside ? scratch[from_y * side + from_x] : 0;
        }
}

void augment_symmetry(const Augment *a, int *ids, int n, int *scratch, RngKey key) {
    const int side = side_of(n), last = side - 1;
    const unsigned which = rng_below(key, 0, 8) & (a->flip ? 7 : 4);
    memcpy(scratch, ids, (size_t)n * sizeof *ids);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            const int u = which & 1 ? last - x : x, v = which & 2 ? last - y : y;
            ids[y * side + x] = which & 4 ? scratch[u * side + v] : scratch[v * side + u];
        }
}

void augment_drop(const Augment *a, int *ids, int n, int *scratch, RngKey key) {
    (void)scratch;
    for (int i = 0; i < n; i++)
        if (rng_uniform(key, (uint64_t)i) < a->drop) ids[i] = TOKEN_MASKED;
}
