/* What fuzz targets share. A target feeds one reader of files whatever it is given: it must come
 * back, with the data or with an Err, and what was accepted must be sound (REQUIRE).
 *
 * Its head comment names the sources whose lines are counted after `make fuzz`, behind "Covers:".
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdint.h>

#include "core/err.h"
#include "scratch.h"

/* libFuzzer's name for the target, and what replay.c calls. The data has no byte to spare. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_remove(void) { scratch_remove(scratch_dir); }

/* The path of a name in a directory that is removed at the program's end. */
static inline const char *fuzz_path(const char *name) {
    if (!scratch_dir[0]) {
        REQUIRE(scratch_open(NULL) == 0, "%s: cannot be made", scratch_dir);
        atexit(fuzz_remove);
    }
    return scratch(name);
}

static inline const char *fuzz_mkdir(const char *name) {
    fuzz_path(name);
    return scratch_mkdir(name);
}

static inline const char *fuzz_file(const char *name, const void *data, size_t size) {
    fuzz_path(name);
    return scratch_write(name, data, size);
}

static inline const char *fuzz_text(const char *name, const char *text) {
    return fuzz_file(name, text, strlen(text));
}

#endif
