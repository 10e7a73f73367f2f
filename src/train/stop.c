#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "train/stop.h"

#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/log.h"
#include "core/mem.h"

/* What this process caught itself; and what is shared with others, once stop_share was called. */
static volatile sig_atomic_t caught;
static _Atomic double caught_at; /* when, by clock_seconds */
typedef struct Asked {
    volatile sig_atomic_t signal;
    volatile sig_atomic_t listening; /* the child has called stop_on_signals */
    volatile sig_atomic_t save;
} Asked;
static Asked alone;
static Asked *_Atomic asked = &alone;

static const struct {
    int number;
    const char *name;
} signals[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGHUP, "SIGHUP"}};
enum { SIGNALS = sizeof signals / sizeof *signals };

/* What comes within this time is still the first signal. */
static const double together_seconds = 0.5;

static bool is_first_process(void) { return getpid() == 1; }
static void end_at_once(int number) { _exit(128 + number); }

/* The signal raised here is pending until the handler returns, and then ends the program. */
static void on_signal(int number) {
    if (!caught) {
        caught_at = clock_seconds();
        caught = asked->signal = number;
    } else if (clock_seconds() - caught_at > together_seconds) {
        if (is_first_process()) end_at_once(number);
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void on_save_signal(int number) {
    (void)number;
    asked->save = 1;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(number, &act, NULL);
}

/* But those that are ignored. */
static void handle_signals(void (*handler)(int)) {
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction was;
        if (sigaction(signals[i].number, NULL, &was) == 0 && was.sa_handler == SIG_IGN) continue;
        handle(signals[i].number, handler);
    }
}

void stop_on_save_signal(void) { handle(SIGUSR2, on_save_signal); }

bool stop_save_asked(void) { return asked->save; }

bool stop_take_save(void) {
    if (!asked->save) return false;
    asked->save = 0; /* one that comes from here on is answered by the save that follows */
    return true;
}

void stop_at_start(void) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (is_first_process()) handle_signals(end_at_once);
}

void stop_ignore_signals(void) {
    for (int i = 0; i < SIGNALS; i++) signal(signals[i].number, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
}

void stop_on_signals(void) {
    handle_signals(on_signal);
    asked->listening = 1;
}

void stop_share(void) {
    void *p = mmap(NULL, sizeof alone, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) mem_missing(1, sizeof alone);
    Asked *shared = p;
    *shared = alone;
    asked = shared;
    if (alone.save) shared->save = 1;
}

void stop_in_child(void) {
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction was;
        if (sigaction(signals[i].number, NULL, &was) == 0 && was.sa_handler == on_signal)
            signal(signals[i].number, SIG_DFL);
    }
    caught = 0;
}

void stop_no_child(void) { asked->listening = asked->save = 0; }
bool stop_child_listens(void) { return asked->listening; }

const char *stop_asked(void) {
    for (int i = 0; i < SIGNALS; i++)
        if (asked->signal == signals[i].number) return signals[i].name;
    return NULL;
}
