/* Memory that is missing ends the program here, whoever asked for it.
 *
 * Not all libraries tell of an allocation that failed: a stream of open_memstream loses what did
 * not fit and reports no error, cJSON leaves out keys, OpenBLAS and libgomp do not look or end the
 * program in ways of their own. So the program brings an allocator, to which its libraries are
 * bound too: the one behind it (the C library's, or one that is preloaded), whose NULL is handed on
 * to nobody. Sanitizers bring theirs, in front of which there may be none. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "core/mem.h"

#ifndef SANITIZED
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

static bool looking;

/* The function of that name behind ours. */
static void *behind(const char *name) {
    looking = true;
    void *found = dlsym(RTLD_NEXT, name);
    looking = false;
    return found;
}

static void *checked(void *p, size_t count, size_t size) {
    if (!p && count && size) mem_missing(count, size);
    return p;
}

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (!next) *(void **)&next = behind("malloc");
    return checked(next(size), 1, size);
}

/* The dlsym of glibc before 2.34 allocates, and does without where it gets nothing. */
void *calloc(size_t count, size_t size) {
    static void *(*next)(size_t, size_t);
    if (!next && looking) return NULL;
    if (!next) *(void **)&next = behind("calloc");
    return checked(next(count, size), count, size);
}

void *realloc(void *old, size_t size) {
    static void *(*next)(void *, size_t);
    if (!next) *(void **)&next = behind("realloc");
    return checked(next(old, size), 1, size);
}

/* libgomp's. */
void *memalign(size_t alignment, size_t size) {
    static void *(*next)(size_t, size_t);
    if (!next) *(void **)&next = behind("memalign");
    return checked(next(alignment, size), 1, size);
}
#endif
