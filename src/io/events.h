/* TensorBoard's event files: scalars for its curves, in a file of each process that writes.
 *
 *     events_begin(&e, step);
 *     events_scalar(&e, "train/loss", loss);
 *     if (!events_end(&e, err)) ...
 *
 * events.out.tfevents.<time>.<host>.<process>.0 is a row of records, each by a single write:
 *   u64 length, u32 crc of these 8 bytes, the event, u32 crc of the event       (little-endian)
 * with masked CRC-32C, and an event is a protocol buffer (event.proto, summary.proto):
 *   Event    1 wall_time (double), 2 step (int64), and one of
 *            3 file_version (string), 5 summary (Summary), 7 session_log (SessionLog)
 *   Summary  1 value (Value, repeated);  Value  1 tag (string), 2 simple_value (float)
 *   SessionLog  1 status (1: START) */
#ifndef IO_EVENTS_H
#define IO_EVENTS_H

#include <stdint.h>

#include "io/file.h"

enum { EVENTS_MOST = 1024, EVENTS_TAG_MOST = 100 };

typedef struct Events {
    int fd; /* -1: closed; begin, scalar and end then do nothing */
    char path[FILE_PATH_MAX];
    int64_t step;
    double time; /* of the event being built, in seconds since 1970 */
    size_t used;
    unsigned char summary[EVENTS_MOST];
} Events;

/* A new file in `dir`, later than those that are there (EX_CANTCREAT, EX_IOERR). Readers drop what
 * these hold of steps after `step`: a run that goes on from there makes them again. */
bool events_open(Events *e, const char *dir, int64_t step, Err *err);
void events_close(Events *e);

/* A run goes back to `step`: readers drop what there is of later steps (EX_IOERR). */
bool events_go_back(Events *e, int64_t step, Err *err);

/* Scalars of a step, each tag once; all fit into EVENTS_MOST bytes, a tag into EVENTS_TAG_MOST. */
void events_begin(Events *e, int64_t step);
void events_scalar(Events *e, const char *tag, double value);
/* EX_IOERR: the file is as before, and later events may be tried. */
bool events_end(Events *e, Err *err);

/* CRC-32C (RFC 3720), and as TFRecord masks it. */
uint32_t crc32c(const void *data, size_t size);
uint32_t crc32c_masked(const void *data, size_t size);

#endif
