#include "core/err.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/utf8.h"

/* A file that is opened while a standard stream is closed would take its number, and with it all
 * that the program prints. Opened for reading: to print remains as much of an error as it was. */
__attribute__((constructor(101))) static void occupy_closed_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) _exit(EX_OSERR);
}

void err_mask(char *s) {
    char *to = s;
    for (size_t left = strlen(s); left > 0;) {
        const int n = utf8_length(s, left), size = n ? n : 1;
        if (n == 0 || (utf8_is_control(s) && *s != '\n'))
            *to++ = '?';
        else
            for (int i = 0; i < n; i++) *to++ = s[i];
        s += size;
        left -= (size_t)size;
    }
    *to = '\0';
}

bool err_set(Err *err, int code, const char *fmt, ...) {
    /* Apart from err->text, so that the old text may be an argument of the new one. */
    char text[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof text) memcpy(text + sizeof text - 4, "...", 4);
    err_mask(text);
    memcpy(err->text, text, sizeof text);
    err->code = code;
    err->key[0] = '\0';
    return false;
}

bool err_blame(Err *err, const char *key) {
    snprintf(err->key, sizeof err->key, "%s", key);
    return false;
}

const char *err_words(int why) { return why == ENOMEM ? "out of memory" : strerror(why); }

int err_status(int why, int code) { return why == ENOMEM ? EX_OSERR : code; }

bool err_absent(int why) {
    return why == ENOENT || why == ENOTDIR || why == ELOOP || why == ENAMETOOLONG;
}

/* As head is when it has enough, and then there is nobody to tell. */
static bool reader_is_gone(void) {
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

bool err_check_stdout(Err *err) {
    const bool failed = ferror(stdout) != 0; /* whose errno is lost */
    errno = 0;
    if (fflush(stdout) == 0 && !failed) return true;
    if (errno == EPIPE || reader_is_gone()) return err_set(err, EX_IOERR, "%s", "");
    return err_set(err, err_status(errno, EX_IOERR), "standard output: %s",
                   errno ? err_words(errno) : "could not be written");
}

int err_report(const char *program, const Err *err) {
    if (*err->text) fprintf(stderr, "%s: %s\n", program, err->text);
    return err->code;
}

void require_failed(const char *file, int line, const char *cond, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_mask(text);
    fprintf(stderr, "%s:%d: this is a bug: '%s' does not hold: %s\n", file, line, cond, text);
    /* Not exit(): it may be called on any thread, and exit handlers would race with the others. */
    _Exit(EX_SOFTWARE);
}
