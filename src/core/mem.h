/* Memory. Set-up code uses mem_*; everything that a training step touches comes from an Arena that
 * was sized before the first step, so that a step allocates nothing. */
#ifndef CORE_MEM_H
#define CORE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/real.h"

/* Says that so many bytes are out of reach, and ends the program (EX_OSERR). So does whatever
 * allocates, in libraries too (core/malloc.c): nobody sees NULL. */
_Noreturn void mem_missing(size_t count, size_t size);

/* Zeroed memory for set-up; the product is checked. */
void *mem_alloc(size_t count, size_t size);
/* Grows to `count` elements; the contents are kept, the new part is not zeroed. */
void *mem_grow(void *p, size_t count, size_t size);
/* Room for `count` elements in a list that grows piece by piece; *cap: for how many it has it. */
void *mem_reserve(void *p, size_t count, size_t *cap, size_t size);
char *mem_strdup(const char *s);
void mem_free(void *p);

/* Whether the machine could still give so many without swapping (EX_OSERR), where it says. Memory
 * is mapped without asking whether it is there: better refused now than killed later. */
bool mem_fits(size_t bytes, Err *err);

/* A bump allocator. With base == NULL it only measures: arena_take returns NULL and `used` grows,
 * to SIZE_MAX at most, so that the same layout code first plans and then places. Every block is
 * 64-byte aligned. */
typedef struct Arena {
    char *base;
    size_t used, cap;
} Arena;

/* Maps `bytes` of zeroed memory, touched only when used. What the arena held is forgotten, so that
 * one that measured opens with its own `used`. */
bool arena_open(Arena *a, size_t bytes, Err *err);
void arena_close(Arena *a);
void *arena_take(Arena *a, size_t count, size_t size);

static inline real *arena_reals(Arena *a, size_t n) { return arena_take(a, n, sizeof(real)); }
static inline int *arena_ints(Arena *a, size_t n) { return arena_take(a, n, sizeof(int)); }
/* An arena of that many bytes within it. */
static inline Arena arena_part(Arena *a, size_t bytes) {
    return (Arena){arena_take(a, bytes, 1), 0, bytes};
}

/* a * b and a + b for sizes that come from files: false on overflow, *out untouched. */
static inline bool size_mul(size_t a, size_t b, size_t *out) {
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}
static inline bool size_add(size_t a, size_t b, size_t *out) {
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}
/* a + b, or SIZE_MAX, which nothing can give. */
static inline size_t size_sum(size_t a, size_t b) { return size_add(a, b, &a) ? a : SIZE_MAX; }

#endif
