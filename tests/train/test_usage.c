/* Memory as the system counts it: a process's own, mapped files, and the most of both. */
#define _GNU_SOURCE
#include "train/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES = 32 << 20 };
static const double nearly = 0.75 * BYTES, little = 0.25 * BYTES; /* of a few pages it lags */

/* Memory of a file, or where that is NULL of none. Filled by the system: writes of this program
 * would fill memory that sanitizers have beside it. */
static void *fill(FILE *f) {
    const int flags = MAP_POPULATE | (f ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, f ? fileno(f) : -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static void memory_is_of_its_kind(void **state) {
    (void)state;
    FILE *f = tmpfile();
    assert_true(f && ftruncate(fileno(f), BYTES) == 0);
    for (int of_file = 0; of_file < 2; of_file++) {
        const Usage before = usage_read();
        void *p = fill(of_file ? f : NULL);
        const Usage now = usage_read();
        const double own = now.own - before.own, mapped = now.mapped - before.mapped;
        assert_true((of_file ? mapped : own) > nearly && (of_file ? own : mapped) < little);
        assert_int_equal(munmap(p, BYTES), 0);
        const Usage after = usage_read(); /* what is given back stays in the most there was */
        assert_true(after.own + after.mapped < now.own + now.mapped - nearly);
        assert_true(usage_peak() > after.own + after.mapped + nearly);
    }
    fclose(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_of_its_kind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
