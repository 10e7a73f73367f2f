#include "sweep/yours.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/mem.h"
#include "scratch.h"

#define HEAD "#!/bin/bash\n# Written by cast_sweep\n"
#define BEGIN "# Yours, kept when this is written anew:\n"
#define END "# End of yours.\n"

static const char *script(const char *text) { return scratch_write("job.sh", text, strlen(text)); }

static void test_kept(void **state) {
    static const struct {
        const char *script, *yours;
    } cases[] = {
        {"", ""},
        {HEAD BEGIN END "cd /\n", ""},
        {HEAD BEGIN "\n#SBATCH --mem=4G\n\tmodule load gcc  \n" END "cd /\n",
         "\n#SBATCH --mem=4G\n\tmodule load gcc  \n"},
        {HEAD BEGIN "# a % of \"mine\", \xc3\xa4 and \xff\n" END,
         "# a % of \"mine\", \xc3\xa4 and \xff\n"},
        {HEAD BEGIN "x\n# End of yours.", "x\n"},
        {HEAD BEGIN "# End of yours. \n # End of yours.\n" END,
         "# End of yours. \n # End of yours.\n"},
    };
    Err err;
    char *got;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!yours_read(&got, script(cases[i].script), &err)) fail_msg("%s", err.text);
        assert_string_equal(got, cases[i].yours);
        mem_free(got);
    }
    assert_true(yours_read(&got, scratch("missing"), &err));
    assert_string_equal(got, "");
    mem_free(got);
}

/* What is printed is read again. */
static void test_printed(void **state) {
    static const char text[] = "#SBATCH --time=1:00\n\nmodule load 100%s\n";
    const char *path = scratch("printed.sh");
    char *got;
    Err err;
    (void)state;
    FILE *f = fopen(path, "w");
    fputs(HEAD, f);
    yours_print(f, text);
    fputs("exit 0\n", f);
    fclose(f);
    if (!yours_read(&got, path, &err)) fail_msg("%s", err.text);
    assert_string_equal(got, text);
    mem_free(got);
}

static void test_refused(void **state) {
    static const struct {
        const char *script;
        int code;
        const char *says;
    } cases[] = {
        {HEAD "cd /\n", EX_CANTCREAT, "move it away"},
        {HEAD BEGIN "x\n", EX_DATAERR,
         "line 3: '# Yours, kept when this is written anew:' without"},
        {HEAD "x\n" END, EX_DATAERR, "line 4: '# End of yours.' without"},
        {HEAD END BEGIN, EX_DATAERR, "line 3: '# End of yours.' without"},
        {HEAD BEGIN "x\n" BEGIN END, EX_DATAERR, "is there again, as on line 3"},
        {HEAD BEGIN END "x\n" BEGIN END, EX_DATAERR, "line 6: '# Yours,"},
        {HEAD BEGIN END "x\n" END, EX_DATAERR, "is there again, as on line 4"},
    };
    Err err;
    char *got;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(yours_read(&got, script(cases[i].script), &err));
        if (err.code != cases[i].code || !strstr(err.text, cases[i].says) ||
            !strstr(err.text, "job.sh"))
            fail_msg("%zu: %d, %s", i, err.code, err.text);
    }
}

/* As many bytes as are kept, and one more. */
static void test_size(void **state) {
    static char text[YOURS_MOST + 256];
    const char *const head = HEAD BEGIN;
    Err err;
    char *got;
    (void)state;
    for (int more = 0; more < 2; more++) {
        const size_t n = strlen(head), size = (size_t)(YOURS_MOST + more);
        memcpy(text, head, n);
        memset(text + n, '#', size);
        for (size_t i = 63; i < size; i += 64) text[n + i] = '\n';
        text[n + size - 1] = '\n';
        strcpy(text + n + size, END);
        const bool ok = yours_read(&got, script(text), &err);
        assert_int_equal(ok, !more);
        if (ok) {
            assert_int_equal(strlen(got), size);
            mem_free(got);
        } else {
            assert_int_equal(err.code, EX_DATAERR);
            assert_non_null(strstr(err.text, "line 1028: more than 65536 bytes"));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_size),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
