/* Errors of the outside world (files, JSON, arguments) travel in an Err; our own bugs stop the
 * program.
 *
 * Linked into every program, this also sees to it that descriptors 0, 1 and 2 are open before main:
 * what a caller has closed is /dev/null, to which nothing can be written. */
#ifndef CORE_ERR_H
#define CORE_ERR_H

#include <stdbool.h>
#include <sysexits.h>

/* `code` is the exit status that main returns: the EX_* values of sysexits.h.
 *   EX_USAGE 64     wrong command line            EX_OSERR 71      no memory, thread or process
 *   EX_DATAERR 65   a file's content is wrong     EX_CANTCREAT 73  an output cannot be created
 *   EX_NOINPUT 66   a file is missing             EX_IOERR 74      a write failed
 *   EX_SOFTWARE 70  not a number, broken promise  EX_TEMPFAIL 75   interrupted; run again to go on
 *   EX_CONFIG 78    a config key or value is wrong, or a rank has others
 *   EX_UNAVAILABLE 69  a program that this one calls is missing or fails, a rank is gone, no MPI */
typedef struct Err {
    int code;
    char text[1024];
    char key[128]; /* the config key that is wrong whatever the others are; "": none */
} Err;

/* Writes the message (cut to fit, and through err_mask) and returns false, so that callers write
 * `return err_set(...)`. err->text may be among the arguments. */
bool err_set(Err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Makes '?' of control characters other than newline, and of bytes that are not UTF-8: names of
 * files and keys come from outside, and must not drive the reader's terminal. */
void err_mask(char *s);

/* After err_set: names the key. Returns false. */
bool err_blame(Err *err, const char *key);

/* Of a call that failed with this errno: why, in words, and the exit status, which is `code` unless
 * memory was missing. */
const char *err_words(int why);
int err_status(int why, int code);
/* Whether a look at a path failed because nothing is there. Else there may be something, and using
 * it tells why it cannot be looked at. */
bool err_absent(int why);

/* For main, last: whether all that was printed reached standard output (EX_IOERR). */
bool err_check_stdout(Err *err);

/* Prints "program: text" to standard error and returns err->code, for main to return. */
int err_report(const char *program, const Err *err);

/* Prints where and why, then exits with EX_SOFTWARE. */
_Noreturn void require_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A promise between our own functions; never used for input. Always on. */
#define REQUIRE(cond, ...)                                                                         \
    do {                                                                                           \
        if (!(cond)) require_failed(__FILE__, __LINE__, #cond, __VA_ARGS__);                       \
    } while (0)

#endif
