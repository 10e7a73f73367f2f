/* Runs a fuzz target without a fuzzer. By itself: over each file of tests/fuzz/corpus/<target> and
 * its beginnings, a line of TAP a file. With arguments: over these files, and the files of these
 * directories, as they are. */
#include "fuzz/fuzz.h"

enum { MOST_CUTS = 512 }; /* of one file: every byte of small ones */

/* A copy without a byte to spare, so that a sanitizer sees what is read behind its end. */
static void feed(const unsigned char *data, size_t size) {
    unsigned char *exact = malloc(size ? size : 1);
    if (!exact) abort();
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

/* Returns the number of inputs that were fed. */
static size_t replay_file(const char *path, bool cut) {
    size_t size;
    unsigned char *data = scratch_read(path, &size);
    const size_t step = size / MOST_CUTS + 1;
    size_t inputs = 1;
    for (size_t n = 0; cut && n < size; n += step, inputs++) feed(data, n);
    feed(data, size);
    free(data);
    return inputs;
}

static int replay_dir(const char *dir, bool cut) {
    char path[4096];
    int files = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        const size_t inputs = replay_file(path, cut);
        files++;
        if (cut) printf("ok %d - %s: %zu inputs\n", files, e->d_name, inputs);
    }
    if (d) closedir(d);
    return files;
}

int main(int argc, char **argv) {
    char dir[512];
    const char *name = strrchr(argv[0], '/');
    name = name ? name + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        struct stat st;
        const bool is_dir = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        if (is_dir)
            replay_dir(argv[i], false);
        else
            replay_file(argv[i], false);
    }
    if (argc > 1) return 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was printed is not lost in a crash */
    snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s", name + strlen("fuzz_"));
    const int files = replay_dir(dir, true);
    printf("1..%d\n", files);
    return files == 0;
}
