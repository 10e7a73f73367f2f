/* Whether prepared splits are what they were made as. What is out of range is seen when they are
 * opened; that a token became another one is seen by the metadata's hash and the file's crc32
 * alone, which take reading all of it.
 *
 * So all is read once, on a thread of its own, and what was right is noted beside the data, in
 * <the split's file>.checked, a line of text:
 *
 *   cast-checked-1 SIZE MODIFIED CHANGED HASH
 *
 * with the file's times in seconds and nanoseconds. As long as the file has these it is not read
 * again. Where no such note can be written, or the file was changed in the last second,
 * the next process reads all. */
#ifndef DATA_VERIFY_H
#define DATA_VERIFY_H

#include "core/aside.h"
#include "data/dataset.h"

typedef struct Verify {
    Dataset *splits;        /* all */
    Dataset *split[SPLITS]; /* those to be read */
    int n;
    Aside *reader; /* NULL: all is known */
    bool wrong;
    Err err; /* what is wrong */
} Verify;

/* Of SPLITS splits those that are open, each file once. Returns when all are known to be right, or
 * after so many seconds; but not before each has its `hash`, which is computed where the metadata
 * have none (of a file that is there twice, the first). The splits and *v stay where they are until
 * verify_close. EX_DATAERR: one is damaged. */
bool verify_start(Verify *v, Dataset *splits, double seconds, Err *err);
/* Waits until all is known, and looks whether the files are still what they were (EX_DATAERR);
 * without a wait from then on, so that it can be asked after each batch. */
bool verify_wait(Verify *v, Err *err);
/* Whether the files of SPLITS splits, of which each has its hash, hold what they did (EX_DATAERR):
 * what was written to since it was last looked at is read again. */
bool verify_unchanged(Dataset *splits, Err *err);
/* All of that, at once. */
bool verify_now(Dataset *splits, Err *err);
void verify_close(Verify *v);

#endif
