/* cast_step against golden vectors: what an independent implementation computed in double from the
 * same files (scripts/reference/golden.py, which describes them). */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/safetensors.h"
#include "scratch.h"

#define GOLDEN "tests/golden"
#define BAR 1e-9
#define BAR_AFTER 1e-8 /* after updates */
#define FLOOR 1e-3     /* of the largest gradient: a smaller one counts as zero */

static double worst, worst_after;

/* ---- the program ---- */

static void run_step(const char *const *args) {
    const char *bin = getenv("CAST_BIN");
    char path[1024];
    const char *argv[16] = {path};
    int status = 0, n = 1;
    snprintf(path, sizeof path, "%s/cast_step", bin ? bin : "build/double");
    while (*args) argv[n++] = *args++;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        execv(path, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s %s: status %d", path, argv[1], status);
}

static void open_file(StFile *f, const char *path) {
    Err err;
    if (!st_open(f, path, &err)) fail_msg("%s", err.text);
}

/* ---- comparison ---- */

static double largest(const StTensor *t) {
    const double *x = t->data;
    double most = 0;
    for (size_t i = 0; i < t->bytes / sizeof *x; i++)
        if (most == most && !(fabs(x[i]) <= most)) most = fabs(x[i]); /* NaN stays */
    return most;
}

static const StTensor *same_shape(const StFile *f, const char *name, const StTensor *expected) {
    Err err;
    const StTensor *t = st_want(f, name, expected->dtype, expected->ndim, expected->shape, &err);
    if (!t) fail_msg("%s", err.text);
    return t;
}

static double compare(const char *what, const StFile *f, const char *name, const StTensor *expected,
                      double floor, double bar) {
    const StTensor *actual = same_shape(f, name, expected);
    const double *a = actual->data, *b = expected->data, scale = fmax(largest(expected), floor);
    double off = 0;
    for (size_t i = 0; i < expected->bytes / sizeof *a; i++)
        if (off == off && !(fabs(a[i] - b[i]) <= off)) off = fabs(a[i] - b[i]);
    double error = off == 0 ? 0 : off / scale;
    if (!(error <= bar)) fail_msg("%s: %s: error %.2g, bar %.0e", what, expected->name, error, bar);
    return error;
}

/* Which tokens a cluster holds, and in which order. */
static void compare_clusters(const char *what, const StFile *f, const StTensor *expected) {
    const StTensor *actual = same_shape(f, expected->name, expected);
    if (memcmp(actual->data, expected->data, expected->bytes) != 0)
        fail_msg("%s: %s differ", what, expected->name);
}

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

static double largest_gradient(const StFile *f) {
    double most = 0;
    for (int i = 0; i < f->ntensors; i++)
        if (begins(f->tensors[i].name, "grad.")) most = fmax(most, largest(&f->tensors[i]));
    return most;
}

/* ---- a case ---- */

typedef struct Golden {
    char dir[300], config[400], weights[400], batch[400];
    StFile expected;
} Golden;

static void check_step(const Golden *g) {
    const char *out = scratch("out.safetensors");
    run_step((const char *[]){g->config, "--weights", g->weights, "--batch", g->batch, "--out", out,
                              NULL});
    StFile f;
    open_file(&f, out);
    const double floor = FLOOR * largest_gradient(&g->expected);
    int compared = 0;
    for (int i = 0; i < g->expected.ntensors; i++) {
        const StTensor *t = &g->expected.tensors[i];
        if (begins(t->name, "after.")) continue;
        /* The gradient of what does not train is 0 there, and left out here. */
        if (begins(t->name, "grad.") && !st_find(&f, t->name) && largest(t) == 0) continue;
        compared++;
        if (begins(t->name, "clusters.")) {
            compare_clusters(g->dir, &f, t);
            continue;
        }
        const double least = begins(t->name, "grad.") ? floor : 0;
        worst = fmax(worst, compare(g->dir, &f, t->name, t, least, BAR));
    }
    assert_int_equal(compared, f.ntensors); /* nothing besides */
    st_close(&f);
}

/* Weights after the updates, and what they give on the batch. */
static void check_updates(const Golden *g, const char *steps) {
    const char *out = scratch("out.safetensors"), *weights = scratch("weights.safetensors");
    run_step((const char *[]){g->config, "--weights", g->weights, "--batch", g->batch, "--steps",
                              steps, "--weights-out", weights, "--out", out, NULL});
    StFile w, f;
    open_file(&w, weights);
    open_file(&f, out);
    for (int i = 0; i < g->expected.ntensors; i++) {
        const StTensor *t = &g->expected.tensors[i];
        if (!begins(t->name, "after.")) continue;
        const char *name = t->name + strlen("after.");
        const StFile *from = !strcmp(name, "logits") || !strcmp(name, "loss") ? &f : &w;
        worst_after = fmax(worst_after, compare(g->dir, from, name, t, 0, BAR_AFTER));
    }
    st_close(&w);
    st_close(&f);
}

static void check_golden(const char *name, int *updated) {
    Golden g;
    snprintf(g.dir, sizeof g.dir, GOLDEN "/%.200s", name);
    snprintf(g.config, sizeof g.config, "%s/config.json", g.dir);
    snprintf(g.weights, sizeof g.weights, "%s/weights.safetensors", g.dir);
    snprintf(g.batch, sizeof g.batch, "%s/batch.safetensors", g.dir);
    char path[400];
    snprintf(path, sizeof path, "%s/expected.safetensors", g.dir);
    open_file(&g.expected, path);
    check_step(&g);
    const char *steps = st_meta(&g.expected, "steps");
    if (steps) check_updates(&g, steps), ++*updated;
    st_close(&g.expected);
}

static void golden_vectors(void **state) {
    (void)state;
    struct dirent **found;
    int n = scandir(GOLDEN, &found, NULL, alphasort), cases = 0, updated = 0;
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        if (found[i]->d_name[0] != '.') check_golden(found[i]->d_name, &updated), cases++;
        free(found[i]);
    }
    free(found);
    printf("# %d cases, %d with updates: worst error %.1e, after updates %.1e\n", cases, updated,
           worst, worst_after);
    assert_true(cases > 0 && updated > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_vectors)};
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
