/* Covers: src/data/pathfinder_tree.c */
#include "archive.h"
#include "data/pathfinder_tree.h"
#include "fuzz/fuzz.h"
#include "io/png.h"

enum { SIDE = 3, PIXELS = SIDE * SIDE };

/* What opens has samples, each with a label, and its images come or are told about. */
static void look(const char *place) {
    Err err;
    Tree *t = tree_open(place, SIDE, &err);
    if (!t) return;
    const int n = tree_count(t), paddles = tree_paddles(t);
    REQUIRE(n > 0 && paddles >= 0, "%d samples of %d dashes", n, paddles);
    for (int i = 0; i < n; i++) {
        unsigned char pixels[PIXELS];
        bool empty = false;
        const TreeSample s = tree_sample(t, i);
        REQUIRE((s.label | 1) == 1 && s.batch >= 0 && s.number >= 0, "label %d of %d, %d", s.label,
                s.batch, s.number);
        tree_pixels(t, i, pixels, &empty, &err);
    }
    tree_close(t);
}

/* As metadata, of a directory with one image and an empty one. */
static void look_at_directory(const uint8_t *data, size_t size) {
    static const unsigned char pixels[PIXELS];
    const char *dirs[] = {"tree", "tree/metadata", "tree/imgs", "tree/imgs/0"};
    Err err;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) fuzz_mkdir(dirs[i]);
    fuzz_file("tree/metadata/0.npy", data, size);
    fuzz_file("tree/imgs/0/sample_1.png", "", 0);
    REQUIRE(png_grey_write(fuzz_path("tree/imgs/0/sample_0.png"), pixels, SIDE, SIDE, &err), "%s",
            err.text);
    look(fuzz_path("tree"));
}

/* As an archive, with right sums in its headers. */
static void look_at_archive(const uint8_t *data, size_t size) {
    Bytes b = {0};
    bytes_add(&b, data, size);
    tar_seal_all(&b, 0);
    look(fuzz_file("fuzz.tar", b.data, b.size));
    bytes_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    look_at_directory(data, size);
    look_at_archive(data, size);
    return 0;
}
