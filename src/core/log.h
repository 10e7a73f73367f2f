/* What people read: lines on standard error, and one progress line that rewrites itself on a
 * terminal and becomes a plain line now and then elsewhere (no '\r' in log files; NO_COLOR,
 * CLICOLOR_FORCE and TERM=dumb are honoured). */
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* A line. What it tells of may come from outside: control characters become '?', as in errors. */
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* With words of our own before it, in a style where they go to what takes colours. */
#define LOG_BOLD "\033[1m"
#define LOG_FAINT "\033[2m"
#define LOG_RED "\033[31m"
void log_headed(const char *style, const char *head, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* From here on log_info and log_headed write to standard output: they are what was asked for. */
void log_to_stdout(void);

/* From here on log_info and log_warn say nothing: another process says the same. */
void log_silence(void);

/* The text replaces the last progress line on a terminal; elsewhere it is printed if `keep`. */
void log_progress(bool keep, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Text before all progress lines from here on ("" for none): which of several jobs this is. */
void log_progress_heading(const char *text);
/* For handlers of signals: a text that was made before, on a line of its own. */
void log_at_once(const char *text);
/* Ends the progress line, so that other output starts on a line of its own. */
void log_progress_end(void);

/* "listops: 500 of 2000 expressions (25 %), 12 s left" as progress, kept every 10 seconds. */
typedef struct LogCount {
    const char *what, *things;
    double started, kept;
} LogCount;
LogCount log_count_start(const char *what, const char *things);
void log_count(LogCount *c, int done, int total);

bool log_is_terminal(void);
/* Letters that a line on standard output has room for: $COLUMNS, the terminal's, or `otherwise`. */
int log_columns(int otherwise);
/* Whether colours may be written to this descriptor. */
bool log_takes_colour(int fd);

/* "1h 02m", "3m 20s", "12 s", "4.2 s" into buf; "1.2 GB", "340 kB"; "1.23 M", "45.6 k". They
 * return buf. */
const char *format_duration(char *buf, size_t size, double seconds);
const char *format_bytes(char *buf, size_t size, double bytes);
const char *format_count(char *buf, size_t size, double count);

/* Appends to the text in buf, cut to what it has room for. */
void format_add(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Seconds since some fixed moment, monotonic. */
double clock_seconds(void);
/* The processor's time of this thread: what others have of it counts as nothing. */
double clock_own_seconds(void);

#endif
