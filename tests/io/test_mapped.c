#include "io/mapped.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "io/file.h"
#include "text.h"

/* What a process says that ends so; its status, as wait has it. */
static int run(void (*job)(void), char said[1024]) {
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        const int fd = open(scratch("said"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(fd, STDERR_FILENO);
        signal(SIGBUS, SIG_DFL); /* cmocka has one of its own */
        job();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    char *text = text_read(scratch("said"));
    snprintf(said, 1024, "%s", text);
    free(text);
    return status;
}

/* A page of memory or several, whatever the processor's are. */
enum { PAGE = 65536 };

static const char *put(const char *name) {
    static char bytes[3 * PAGE] = "x";
    return scratch_write(name, bytes, sizeof bytes);
}

static void map(FileMap *m, const char *path) {
    Err err;
    if (!file_map(m, path, &err)) fail_msg("%s", err.text);
}

static volatile unsigned char seen;

static void read_cut(void) {
    FileMap other, m;
    map(&other, put("other"));
    map(&m, put("cut"));
    seen = m.data[2 * PAGE];
    if (truncate(scratch("cut"), PAGE) == 0) seen = m.data[0] + m.data[2 * PAGE];
}

/* More than can be told of, but the first of them. */
static void read_first_of_many(void) {
    FileMap m[MAPPED_MOST + 3];
    for (int i = 0; i < MAPPED_MOST + 3; i++) map(&m[i], put(i ? "other" : "first"));
    if (truncate(scratch("first"), 0) == 0) seen = m[0].data[0];
}

static void read_again(void) {
    FileMap m;
    for (int i = 0; i < 3 * MAPPED_MOST; i++) {
        map(&m, put("again"));
        file_unmap(&m);
    }
    read_cut();
}

static void send(void) {
    FileMap m;
    map(&m, put("other"));
    raise(SIGBUS);
}

static void expect(void (*job)(void), const char *name) {
    char said[1024], end[64];
    const int status = run(job, said);
    snprintf(end, sizeof end, "%s: can no longer be read: it was cut short", name);
    if (!WIFEXITED(status)) fail_msg("%s: ended by signal %d", name, WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), EX_DATAERR);
    if (!strstr(said, end)) fail_msg("expected '%s' in: %s", end, said);
    assert_non_null(strstr(said, "test_mapped: /"));
}

static void names_the_file(void **state) {
    (void)state;
    expect(read_cut, "/cut");
    expect(read_first_of_many, "/first");
    expect(read_again, "/cut");
}

/* Other bus errors are what they were. */
static void others_pass(void **state) {
    char said[1024];
    (void)state;
    const int status = run(send, said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    assert_string_equal(said, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_file),
        cmocka_unit_test(others_pass),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
