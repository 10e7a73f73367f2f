/* A disk that does not keep what it was given: what was written is read back before it takes its
 * name. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/json_print.h"
#include "io/png.h"
#include "io/safetensors.h"
#include "text.h"

static off_t spoilt; /* how far from its end a file's byte changes when it is synced; 0: none */

/* In the place of the C library's: commit calls it when all is written. */
int fsync(int fd) {
    struct stat st;
    if (spoilt && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= spoilt)
        assert_int_equal(pwrite(fd, "\x55", 1, st.st_size - spoilt), 1);
    return fdatasync(fd);
}

static bool write_tensor(const char *path, Err *err) {
    static const int64_t shape = 100;
    float x[100];
    for (int i = 0; i < 100; i++) x[i] = (float)i;
    const StTensor t = st_tensor("x", DT_F32, 1, &shape, x);
    return st_write(path, KIND_TENSORS, &t, 1, NULL, 0, err);
}

static bool write_object(const char *path, Err *err) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "key", "value");
    const bool ok = json_write(o, path, err);
    cJSON_Delete(o);
    return ok;
}

static bool write_picture(const char *path, Err *err) {
    unsigned char rgb[3 * 8 * 8];
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (unsigned char)(i * i);
    return png_rgb_write(path, rgb, 8, 8, err);
}

/* The byte that changes lies in the data, in front of the closing brace, in the pixels. */
static const struct {
    const char *name;
    bool (*write)(const char *path, Err *err);
    off_t spoilt;
} kinds[] = {{"x.safetensors", write_tensor, 100},
             {"x.json", write_object, 2},
             {"x.png", write_picture, 40}};

static void keeps_the_old(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        Err err;
        size_t size, after;
        const char *path = scratch(kinds[i].name);
        assert_true(kinds[i].write(path, &err));
        unsigned char *was = scratch_read(path, &size);
        const int files = text_count(scratch_dir);
        spoilt = kinds[i].spoilt;
        assert_false(kinds[i].write(path, &err));
        assert_int_equal(err.code, EX_IOERR);
        assert_non_null(strstr(err.text, "is not what was written"));
        spoilt = 0;
        unsigned char *is = scratch_read(path, &after);
        assert_int_equal(after, size);
        assert_memory_equal(is, was, size);
        assert_int_equal(text_count(scratch_dir), files);
        free(is);
        free(was);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_the_old)};
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
