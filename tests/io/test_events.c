/* Event files: against vectors of RFC 3720 and bytes that TensorBoard's own writer made. */
#include "io/events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scratch.h"

static void test_crc(void **state) {
    (void)state;
    unsigned char zeros[32] = {0}, ones[32], up[32];
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) up[i] = (unsigned char)i;
    assert_int_equal(crc32c(zeros, sizeof zeros), 0x8a9136aa);
    assert_int_equal(crc32c(ones, sizeof ones), 0x62a8ab43);
    assert_int_equal(crc32c(up, sizeof up), 0x46dd794e);
    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_masked("\x1a\x11"
                                   "CRC test, one two",
                                   19),
                     0x5794d08a);
}

/* Reads one record at `at`, whose checksums must be right; returns where the next begins. */
static size_t record(const unsigned char *file, size_t size, size_t at, const unsigned char **event,
                     size_t *n) {
    uint32_t crc;
    assert_true(size - at > 16);
    *n = file[at] | (size_t)file[at + 1] << 8;
    for (int i = 2; i < 8; i++) assert_int_equal(file[at + (size_t)i], 0);
    memcpy(&crc, file + at + 8, 4);
    assert_int_equal(crc, crc32c_masked(file + at, 8));
    assert_true(*n <= size - at - 16);
    *event = file + at + 12;
    memcpy(&crc, *event + *n, 4);
    assert_int_equal(crc, crc32c_masked(*event, *n));
    return at + 16 + *n;
}

static unsigned char *written(const Events *e, size_t *size) { return scratch_read(e->path, size); }

/* tensorboard.summary.writer.record_writer.RecordWriter over
 * Event(wall_time=1.5, step=300, summary: train/loss 2.25, val/accuracy -0.5). */
static const unsigned char golden[] = {
    0x36, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4f, 0x57, 0x8c, 0xef, 0x09, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f, 0x10, 0xac, 0x02, 0x2a, 0x28, 0x0a, 0x11,
    0x0a, 0x0a, 0x74, 0x72, 0x61, 0x69, 0x6e, 0x2f, 0x6c, 0x6f, 0x73, 0x73, 0x15, 0x00,
    0x00, 0x10, 0x40, 0x0a, 0x13, 0x0a, 0x0c, 0x76, 0x61, 0x6c, 0x2f, 0x61, 0x63, 0x63,
    0x75, 0x72, 0x61, 0x63, 0x79, 0x15, 0x00, 0x00, 0x00, 0xbf, 0xb4, 0x88, 0x55, 0x8b};

static void test_golden(void **state) {
    (void)state;
    Events e;
    Err err;
    size_t size, n;
    const unsigned char *event;
    assert_true(events_open(&e, scratch_mkdir("golden"), 299, &err));
    events_begin(&e, 300);
    e.time = 1.5;
    events_scalar(&e, "train/loss", 2.25);
    events_scalar(&e, "val/accuracy", -0.5);
    assert_true(events_end(&e, &err));
    assert_true(events_go_back(&e, 299, &err));
    unsigned char *file = written(&e, &size);
    size_t at = record(file, size, 0, &event, &n);
    /* The time, step 0, and the version, by which readers know the format. */
    assert_int_equal(event[0], 0x09);
    assert_int_equal(n, 9 + 2 + 15);
    assert_memory_equal(event + 9,
                        "\x10\0\x1a\x0d"
                        "brain.Event:2",
                        17);
    at = record(file, size, at, &event, &n);
    /* A session that starts at step 300: what was after 299 is withdrawn. */
    assert_int_equal(n, 9 + 3 + 4);
    assert_memory_equal(event + 9, "\x10\xac\x02\x3a\x02\x08\x01", 7);
    assert_memory_equal(file + at, golden, sizeof golden);
    /* And again, within the file. */
    assert_int_equal(record(file, size, at + sizeof golden, &event, &n), size);
    assert_int_equal(n, 9 + 3 + 4);
    assert_memory_equal(event + 9, "\x10\xac\x02\x3a\x02\x08\x01", 7);
    free(file);
    events_close(&e);
}

/* Files that one process or several open in the same second, or before the clock was set back. */
static void test_later_files(void **state) {
    (void)state;
    Events e;
    Err err;
    char before[FILE_PATH_MAX] = "";
    const char *dir = scratch_mkdir("later");
    scratch_write("later/events.out.tfevents.5000000000.host.1", "", 0);
    snprintf(before, sizeof before, "%s", scratch("later/events.out.tfevents.5000000000.host.1"));
    for (int i = 0; i < 3; i++) {
        assert_true(events_open(&e, dir, 0, &err));
        assert_true(strcmp(e.path, before) > 0);
        snprintf(before, sizeof before, "%s", e.path);
        events_close(&e);
    }
}

static void test_closed(void **state) {
    (void)state;
    Events e = {.fd = -1};
    Err err;
    events_begin(&e, 1);
    events_scalar(&e, "a", 1);
    assert_true(events_end(&e, &err));
    events_close(&e);
    assert_false(events_open(&e, scratch("nowhere"), 0, &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    assert_int_equal(e.fd, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_later_files),
        cmocka_unit_test(test_closed),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
