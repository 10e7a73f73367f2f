#define _GNU_SOURCE /* program_invocation_short_name */
#include "io/mapped.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

#include "core/err.h"
#include "core/log.h"

/* Written before `start`, which is 0 where there is none: a handler may run at any moment. */
static struct {
    volatile uintptr_t start;
    size_t size;
    char message[4096 + 128];
} maps[MAPPED_MOST];

static struct sigaction before; /* that of a sanitizer, say */

static void on_bus_error(int number, siginfo_t *info, void *context) {
    const uintptr_t at = (uintptr_t)info->si_addr;
    for (int i = 0; i < MAPPED_MOST; i++) {
        if (maps[i].start == 0 || at < maps[i].start || at - maps[i].start >= maps[i].size)
            continue;
        log_at_once(maps[i].message);
        _exit(EX_DATAERR);
    }
    sigaction(SIGBUS, &before, NULL);
    raise(number);
}

static void listen(void) {
    static bool listens;
    struct sigaction act = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    if (listens) return;
    sigemptyset(&act.sa_mask);
    sigaction(SIGBUS, &act, &before);
    listens = true;
}

void mapped_add(const void *start, size_t size, const char *path) {
    int i = 0;
    while (i < MAPPED_MOST && maps[i].start) i++;
    if (i == MAPPED_MOST) return;
    listen();
    snprintf(maps[i].message, sizeof maps[i].message,
             "%s: %s: can no longer be read: it was cut short while it was in use, or its disk "
             "fails\n",
             program_invocation_short_name, path);
    err_mask(maps[i].message);
    maps[i].size = size;
    maps[i].start = (uintptr_t)start;
}

void mapped_remove(const void *start) {
    for (int i = 0; i < MAPPED_MOST; i++)
        if (maps[i].start == (uintptr_t)start) maps[i].start = 0;
}
