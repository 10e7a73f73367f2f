#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "core/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/log.h"
#include "core/machine.h"

enum { ALIGN = 64 };

void mem_missing(size_t count, size_t size) {
    fprintf(stderr, "out of memory: %zu x %zu bytes were asked for\n", count, size);
    /* Not exit(), as in require_failed. */
    _Exit(EX_OSERR);
}

static void *checked(void *p, size_t count, size_t size) {
    if (!p) mem_missing(count, size);
    return p;
}

void *mem_alloc(size_t count, size_t size) {
    if (count == 0 || size == 0) count = size = 1;
    return checked(calloc(count, size), count, size);
}

void *mem_grow(void *p, size_t count, size_t size) {
    size_t bytes = 0;
    if (count == 0 || size == 0) count = size = 1;
    if (!size_mul(count, size, &bytes)) return checked(NULL, count, size);
    return checked(realloc(p, bytes), count, size);
}

void *mem_reserve(void *p, size_t count, size_t *cap, size_t size) {
    if (count <= *cap) return p;
    *cap = count + count / 2 + 64;
    return mem_grow(p, *cap, size);
}

char *mem_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(mem_alloc(n, 1), s, n);
}

void mem_free(void *p) { free(p); }

static bool round_up(size_t n, size_t *out) {
    if (!size_add(n, ALIGN - 1, &n)) return false;
    *out = n & ~(size_t)(ALIGN - 1);
    return true;
}

/* In bytes, of the machine and of what a container or a job may have of it; 0 where nothing says.
 */
static size_t mem_available(void) {
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (f) fclose(f);
    const double ours = machine_memory(MACHINE_GROUPS), all = (double)kib * 1024;
    return (size_t)(ours > 0 && (ours < all || all == 0) ? ours : all);
}

bool mem_fits(size_t bytes, Err *err) {
    char need[32], have[32];
    const size_t available = mem_available();
    if (available == 0 || bytes <= available) return true;
    return err_set(err, EX_OSERR, "out of memory: %s are needed, %s are available",
                   format_bytes(need, sizeof need, (double)bytes),
                   format_bytes(have, sizeof have, (double)available));
}

bool arena_open(Arena *a, size_t bytes, Err *err) {
    char need[32];
    size_t cap = 0;
    *a = (Arena){0};
    if (!round_up(bytes ? bytes : 1, &cap))
        return err_set(err, EX_OSERR, "out of memory: more than %s are needed",
                       format_bytes(need, sizeof need, (double)bytes));
    void *p = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return err_set(err, EX_OSERR, "out of memory: %zu bytes (%.1f GB) cannot be mapped: %s",
                       cap, (double)cap * 1e-9, strerror(errno));
    madvise(p, cap, MADV_HUGEPAGE); /* fewer TLB misses; where refused, nothing is lost */
    *a = (Arena){.base = p, .cap = cap};
    return true;
}

void arena_close(Arena *a) {
    if (a->base) munmap(a->base, a->cap);
    *a = (Arena){0};
}

/* Large blocks are often whole pages long. Laid end to end they would all start at the same place
 * in a page, where a load waits for any recent store at the same place in another (4K aliasing). */
enum { STAGGER = 192 };

void *arena_take(Arena *a, size_t count, size_t size) {
    size_t bytes = 0, end = 0, at = a->used;
    if (!size_mul(count, size, &bytes) || !round_up(bytes, &bytes) || !size_add(at, bytes, &end) ||
        !size_add(end, STAGGER, &end))
        end = SIZE_MAX; /* measured, this is more than arena_open gives */
    REQUIRE(!a->base || end <= a->cap, "arena of %zu bytes: %zu more after %zu", a->cap, bytes, at);
    a->used = end;
    return a->base ? a->base + at : NULL;
}
