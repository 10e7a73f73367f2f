#include "core/log.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "core/err.h"

#define RESET "\033[0m"
#define YELLOW "\033[33m"

static char heading[128];
static bool answers; /* lines of log_info are what was asked for: on standard output */
static bool silent;
static bool progress_open; /* a progress line stands on the terminal, without its newline */

static bool is_terminal(int fd) {
    const char *term = getenv("TERM");
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

bool log_is_terminal(void) { return is_terminal(STDERR_FILENO); }

int log_columns(int otherwise) {
    enum { LEAST = 2, MOST = 10000 };
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    const long said = columns ? strtol(columns, NULL, 10) : 0;
    if (said >= LEAST && said <= MOST) return (int)said;
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= LEAST;
    return known ? size.ws_col : otherwise;
}

/* no-color.org and bixense.com/clicolors */
bool log_takes_colour(int fd) {
    const char *no = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE");
    if (no && *no) return false;
    return (force && *force && strcmp(force, "0") != 0) || is_terminal(fd);
}

/* The ANSI sequence where the descriptor takes colours, else "". */
static const char *style_on(int fd, const char *sequence) {
    return log_takes_colour(fd) ? sequence : "";
}

/* A line, however long, masked but for `before` and `after`, which are ours. It is written at once:
 * between two writes another process of the job may have written its own. */
__attribute__((format(printf, 4, 0))) static void write_line(FILE *f, const char *before,
                                                             const char *after, const char *fmt,
                                                             va_list ap) {
    const size_t head = strlen(before), tail = strlen(after) + sizeof "\n";
    char few[1024], *line = few;
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    size_t size = head + (size_t)(n > 0 ? n : 0) + tail;
    if (size <= sizeof few || !(line = malloc(size))) line = few, size = sizeof few;
    memcpy(line, before, head);
    vsnprintf(line + head, size - head - tail + 1, fmt, ap);
    err_mask(line + head);
    const size_t at = strlen(line);
    snprintf(line + at, size - at, "%s\n", after);
    fputs(line, f);
    if (line != few) free(line);
}

/* A line of its own: a progress line that stands is erased; the next one is drawn below. */
__attribute__((format(printf, 4, 0))) static void print_line(FILE *f, const char *before,
                                                             const char *after, const char *fmt,
                                                             va_list ap) {
    flockfile(stderr);
    if (progress_open) fputs("\r\033[K", stderr);
    progress_open = false;
    write_line(f, before, after, fmt, ap);
    funlockfile(stderr);
}

static FILE *info_stream(void) { return answers ? stdout : stderr; }

void log_to_stdout(void) { answers = true; }
void log_silence(void) { silent = true; }

void log_info(const char *fmt, ...) {
    va_list ap;
    if (silent) return;
    va_start(ap, fmt);
    print_line(info_stream(), "", "", fmt, ap);
    va_end(ap);
}

void log_headed(const char *style, const char *head, const char *fmt, ...) {
    char before[256];
    const int fd = answers ? STDOUT_FILENO : STDERR_FILENO;
    va_list ap;
    snprintf(before, sizeof before, "%s%s%s", style_on(fd, style), head, style_on(fd, RESET));
    va_start(ap, fmt);
    print_line(info_stream(), before, "", fmt, ap);
    va_end(ap);
}

void log_warn(const char *fmt, ...) {
    char before[32];
    va_list ap;
    if (silent) return;
    snprintf(before, sizeof before, "%swarning: ", style_on(STDERR_FILENO, YELLOW));
    va_start(ap, fmt);
    print_line(stderr, before, style_on(STDERR_FILENO, RESET), fmt, ap);
    va_end(ap);
}

void log_progress(bool keep, const char *fmt, ...) {
    bool terminal = log_is_terminal();
    if (!terminal && !keep) return;
    va_list ap;
    va_start(ap, fmt);
    if (terminal) {
        flockfile(stderr);
        /* Without line wrap: a line wider than the window could not be rewritten by '\r'. */
        fputs("\r\033[?7l", stderr);
        fputs(heading, stderr);
        vfprintf(stderr, fmt, ap);
        fputs("\033[K\033[?7h", stderr);
        progress_open = true;
        funlockfile(stderr);
    } else {
        print_line(stderr, heading, "", fmt, ap);
    }
    va_end(ap);
}

void log_at_once(const char *text) {
    static const char line_anew[] = "\r\033[K\033[?7h";
    bool ok = !progress_open || write(STDERR_FILENO, line_anew, sizeof line_anew - 1) >= 0;
    ok = write(STDERR_FILENO, text, strlen(text)) >= 0 && ok;
    (void)ok; /* there is nobody else to tell */
}

void log_progress_heading(const char *text) { snprintf(heading, sizeof heading, "%s", text); }

LogCount log_count_start(const char *what, const char *things) {
    const double now = clock_seconds();
    return (LogCount){what, things, now, now};
}

void log_count(LogCount *c, int done, int total) {
    enum { KEEP_SECONDS = 10 };
    char left[32] = "unknown";
    const double now = clock_seconds();
    const bool keep = now - c->kept >= KEEP_SECONDS;
    if (keep) c->kept = now;
    if (done > 0) format_duration(left, sizeof left, (now - c->started) / done * (total - done));
    log_progress(keep, "%s: %d of %d %s (%d %%), %s left", c->what, done, total, c->things,
                 (int)(100.0 * done / total), left);
}

void log_progress_end(void) {
    if (progress_open) fputc('\n', stderr);
    progress_open = false;
}

const char *format_duration(char *buf, size_t size, double seconds) {
    /* Also false for NaN; beyond, the figures would not fit in a long long. */
    if (!(seconds >= 0 && seconds < 1e15)) {
        snprintf(buf, size, "?");
    } else if (seconds < 9.95) {
        snprintf(buf, size, "%.1f s", seconds);
    } else {
        long long s = llround(seconds), m = s / 60;
        if (s < 60)
            snprintf(buf, size, "%lld s", s);
        else if (s < 3600)
            snprintf(buf, size, "%lldm %02llds", m, s % 60);
        else
            snprintf(buf, size, "%lldh %02lldm", s / 3600, m % 60);
    }
    return buf;
}

/* Divides *x by 1000 until it prints below 1000; returns how often, at most `most` times. */
static int scale(double *x, int most) {
    int n = 0;
    for (; n < most && fabs(*x) >= 999.5; n++) *x /= 1000;
    return n;
}

const char *format_bytes(char *buf, size_t size, double bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    int unit = scale(&bytes, 6);
    snprintf(buf, size, unit > 0 && bytes < 9.95 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return buf;
}

const char *format_count(char *buf, size_t size, double count) {
    static const char *const units[] = {"", " k", " M", " G", " T", " P", " E"};
    int unit = scale(&count, 6);
    int digits = unit == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
    snprintf(buf, size, "%.*f%s", digits, count, units[unit]);
    return buf;
}

void format_add(char *buf, size_t size, const char *fmt, ...) {
    const size_t used = strlen(buf);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf + used, size - used, fmt, ap);
    va_end(ap);
}

double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_own_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
