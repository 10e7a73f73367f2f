/* Preloaded: lets the allocation of one number fail in a program of ours, as if memory had run out.
 *
 *   FAULT_AT=n         the n-th allocation of the process fails
 *   FAULT_MET=FILE     which then is made
 *   FAULT_LIST=FILE    none fails; the numbers of those that no other before them was like, by the
 *                      calls that led there, are appended to FILE */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

enum { CALLS = 16, PLACES = 1 << 16 };
static long at, number;
static int list = -1;

/* By the addresses that calls return to, in a table of those seen. */
static bool is_new(void) {
    static uint64_t seen[PLACES];
    void *call[CALLS];
    uint64_t hash = 1;
    for (int i = backtrace(call, CALLS) - 1; i > 1; i--)
        hash = (hash ^ (uintptr_t)call[i]) * 0x9E3779B97F4A7C15u;
    uint64_t *place = &seen[hash % PLACES];
    while (*place && *place != hash)
        if (++place == seen + PLACES) place = seen;
    const bool is = !*place;
    *place = hash;
    return is;
}

static bool fails(void) {
    static _Thread_local bool within; /* backtrace may allocate */
    if (within || (!at && list < 0)) return false;
    const long n = __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED);
    within = true;
    if (list >= 0 && is_new()) dprintf(list, "%ld\n", n);
    within = false;
    if (n != at) return false;
    const char *met = getenv("FAULT_MET");
    if (met) close(open(met, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    errno = ENOMEM;
    return true;
}

__attribute__((constructor)) static void start(void) {
    const char *which = getenv("FAULT_AT"), *file = getenv("FAULT_LIST");
    void *call[1];
    if (strncmp(program_invocation_short_name, "cast_", 5) != 0) return;
    backtrace(call, 1); /* loads a library the first time */
    if (which) at = strtol(which, NULL, 10);
    if (file) list = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t size) { return fails() ? NULL : __libc_realloc(p, size); }
void *memalign(size_t to, size_t size) { return fails() ? NULL : __libc_memalign(to, size); }
/* But for executable memory, of which tests/core/test_gemm.c is. */
void *mmap(void *p, size_t size, int prot, int flags, int fd, off_t from) {
    if (!(prot & PROT_EXEC) && fails()) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, p, size, prot, flags, fd, from);
}
