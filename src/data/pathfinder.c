/* Pathfinder and Path-X: are the two disks at the ends of one snake? Pixel by pixel, as 1024 and
 * 16384 intensities; the id is the intensity. One program under two names, with other settings.
 *
 * Generate draws images by the official program's rules (data/snakes.h) and may write them as the
 * official files too. Path-X's released images look as if they had 17 distractors at contrast .7
 * (github.com/bhattarailab/pathfinder-generator) where 8 at .9 are documented; --as-released makes
 * the former. Test takes the first images, validation the next, train the rest: a smaller
 * training set has the same test set.
 *
 * Import reads the official files (data/pathfinder_tree.h). They have no official split; a Philox
 * permutation keyed by the seed and "pathfinder.split" gives a tenth of the images named to
 * validation, the next tenth to test, the rest to train; all keep the order of the metadata. Files
 * without a byte are passed over. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/lanes.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/option.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "data/pathfinder_tree.h"
#include "data/picture.h"
#include "data/snakes.h"
#include "data/task.h"
#include "io/png.h"

enum {
    CLASSES = 2,
    TRAIN = 160000,
    VAL = 20000,
    TEST = 20000,
    MOST = 10000000, /* images in all */
    ROUND = 256,     /* images between two reports */
    BATCH = 1000,    /* images of a folder of official files */
    ROW = 128        /* bytes of a line of metadata, at most */
};

#define ARCHIVE "lra_release.gz"
#define URL "https://storage.googleapis.com/long-range-arena/" ARCHIVE

extern const Task task_pathfinder, task_pathx;

static const char *const class_names[CLASSES] = {"two snakes", "one snake"};

/* ---- settings ---- */

static bool read_side(const Task *t, const TaskRequest *r, int *side, Err *err) {
    SnakeStyle any;
    const char *text = task_setting(r, "side");
    *side = picture_side(t->max_length);
    if (!text) return true;
    if (!option_int("side", text, 1, SIDE_MAX, side, err)) return false;
    if (snake_style(&any, *side, 14)) return true;
    return err_set(err, EX_USAGE, "--side: expected 32, 64, 128 or 256, got '%.60s'", text);
}

static bool read_paddles(const TaskRequest *r, int *paddles, Err *err) {
    static const struct {
        const char *name;
        int paddles;
    } grades[] = {{"easy", 6}, {"intermediate", 9}, {"hard", 14}};
    const char *text = task_setting(r, "difficulty");
    for (size_t i = 0; i < sizeof grades / sizeof *grades; i++) {
        *paddles = grades[i].paddles;
        if (strcmp(text ? text : "hard", grades[i].name) == 0) return true;
    }
    return err_set(err, EX_USAGE, "--difficulty: expected easy, intermediate or hard, got '%.60s'",
                   text);
}

static bool read_style(const Task *t, const TaskRequest *r, SnakeStyle *s, Err *err) {
    const char *distractors = task_setting(r, "distractors");
    const char *contrast = task_setting(r, "contrast");
    int side, paddles;
    if (!read_side(t, r, &side, err) || !read_paddles(r, &paddles, err)) return false;
    snake_style(s, side, paddles);
    if (task_setting(r, "as-released")) {
        if (side != 128)
            return err_set(err, EX_USAGE, "--as-released: is about side 128, not %d", side);
        s->distractors = 70 / s->distractor_size;
        s->contrast = 0.7;
    }
    return (!distractors ||
            option_int("distractors", distractors, 0, DISTRACTORS_MAX, &s->distractors, err)) &&
           (!contrast || option_real("contrast", contrast, &s->contrast, err));
}

/* ---- generate ---- */

/* Images that are drawn at the same time. */
typedef struct Round {
    const Snakes *snakes;
    uint64_t seed, first;
    size_t pixels;
    uint8_t *image; /* (ROUND, pixels) */
    SnakeFacts facts[ROUND];
} Round;

static void draw_lane(void *ctx, int lane, int thread) {
    Round *r = ctx;
    (void)thread;
    snakes_draw(r->snakes, r->seed, r->first + (uint64_t)lane, r->image + (size_t)lane * r->pixels,
                &r->facts[lane]);
}

/* Official files that are being written. */
typedef struct Export {
    const char *dir; /* NULL: none are */
    const SnakeStyle *style;
    char *rows; /* metadata of the batch */
    size_t used;
} Export;

static bool export_open(Export *e, int batch, Err *err) {
    char path[FILE_PATH_MAX];
    e->used = 0;
    int n = snprintf(path, sizeof path, "%s/imgs/%d", e->dir, batch);
    if (n >= FILE_PATH_MAX - 32)
        return err_set(err, EX_CANTCREAT, "--png: %.80s...: the name is too long", e->dir);
    if (!file_make_dirs(path, err)) return false;
    snprintf(path, sizeof path, "%s/metadata", e->dir);
    return file_make_dirs(path, err);
}

static bool export_close(Export *e, int batch, Err *err) {
    char path[FILE_PATH_MAX];
    AtomicFile file;
    snprintf(path, sizeof path, "%s/metadata/%d.npy", e->dir, batch);
    if (!atomic_open(&file, path, err)) return false;
    atomic_write(&file, e->rows, e->used);
    return atomic_commit(&file, err);
}

/* Image i of `total`, with the line of metadata that LRA's release has. */
static bool export_add(Export *e, int i, int total, const uint8_t *pixels, const SnakeFacts *facts,
                       Err *err) {
    const SnakeStyle *s = e->style;
    char path[FILE_PATH_MAX];
    int batch = i / BATCH, number = i % BATCH;
    if (!e->dir) return true;
    if (number == 0 && !export_open(e, batch, err)) return false;
    snprintf(path, sizeof path, "%s/imgs/%d/sample_%d.png", e->dir, batch, number);
    if (!png_grey_write(path, pixels, s->side, s->side, err)) return false;
    e->used += (size_t)snprintf(e->rows + e->used, ROW,
                                "imgs/%d sample_%d.png %d %d %.1f %d %d %d %.1f %d 1\n", batch,
                                number, number, facts->label, s->continuity, s->paddles,
                                s->distractor_size, s->length, s->thickness, facts->margin);
    return (number < BATCH - 1 && i < total - 1) || export_close(e, batch, err);
}

typedef struct Making {
    const Task *task;
    DatasetWriter *w[SPLITS];
    Export export;
    int first_val, first_train, total, done;
    int64_t distractors, attempts;
    LogCount progress;
} Making;

static void add_image(DatasetWriter *w, const uint8_t *pixels, int n, int label) {
    int ids[SIDE_MAX * SIDE_MAX];
    for (int p = 0; p < n; p++) ids[p] = pixels[p];
    dataset_add_example(w, label, dataset_add_document(w, ids, n), -1);
}

static bool take_round(Making *m, const Round *r, int count, Err *err) {
    for (int i = 0; i < count; i++, m->done++) {
        const uint8_t *pixels = r->image + (size_t)i * r->pixels;
        int split = m->done < m->first_val     ? SPLIT_TEST
                    : m->done < m->first_train ? SPLIT_VAL
                                               : SPLIT_TRAIN;
        add_image(m->w[split], pixels, (int)r->pixels, r->facts[i].label);
        m->distractors += r->facts[i].distractors;
        m->attempts += r->facts[i].attempts;
        if (!export_add(&m->export, m->done, m->total, pixels, &r->facts[i], err)) return false;
    }
    return true;
}

static bool make_images(Making *m, const SnakeStyle *style, uint64_t seed, Err *err) {
    Round *r = mem_alloc(1, sizeof *r);
    Snakes *snakes = snakes_open(style);
    bool ok = true;
    r->snakes = snakes;
    r->seed = seed;
    r->pixels = (size_t)style->side * (size_t)style->side;
    r->image = mem_alloc(ROUND, r->pixels);
    while (ok && m->done < m->total) {
        int count = m->total - m->done < ROUND ? m->total - m->done : ROUND;
        r->first = (uint64_t)m->done;
        lanes_run(count, draw_lane, r);
        ok = take_round(m, r, count, err);
        log_count(&m->progress, m->done, m->total);
    }
    log_progress_end();
    snakes_close(snakes);
    mem_free(r->image);
    mem_free(r);
    return ok;
}

/* All images are held until they are written, so it is better to hear of too little memory now. */
static bool check_room(const Task *t, const SnakeStyle *s, int64_t total, Err *err) {
    char need[32], have[32];
    double bytes = 1.5 * (double)total * s->side * s->side;
    size_t there = mem_available();
    if (total > MOST)
        return err_set(err, EX_USAGE, "%s: %" PRId64 " examples in all, expected at most %d",
                       t->name, total, MOST);
    if (there == 0 || bytes <= (double)there) return true;
    format_bytes(need, sizeof need, bytes);
    format_bytes(have, sizeof have, (double)there);
    return err_set(err, EX_OSERR,
                   "%s: %" PRId64 " images take %s of memory while they are made, there are %s; "
                   "--train asks for fewer",
                   t->name, total, need, have);
}

static bool generate(const Task *t, const TaskRequest *r, Err *err) {
    SnakeStyle style;
    int train = r->train ? r->train : TRAIN, val = r->val ? r->val : VAL,
        test = r->test ? r->test : TEST;
    if (!read_style(t, r, &style, err) || !check_room(t, &style, (int64_t)train + val + test, err))
        return false;
    Making m = {.task = t, .first_val = test, .first_train = test + val};
    m.total = test + val + train;
    m.export = (Export){.dir = task_setting(r, "png"), .style = &style};
    m.export.rows = mem_alloc(BATCH, ROW);
    m.progress = log_count_start(t->name, "images");
    char source[192];
    snprintf(source, sizeof source,
             "generated by the rules of Pathfinder's snakes2.py: side %d, %d paddles, %d "
             "distractors, contrast %g; seed %" PRIu64,
             style.side, style.paddles, style.distractors, style.contrast, r->seed);
    for (int s = 0; s < SPLITS; s++)
        m.w[s] = dataset_writer(t->name, split_names[s], source, t->vocab, CLASSES, false);
    bool ok = make_images(&m, &style, r->seed, err) && dataset_write_splits(m.w, r->out, err);
    if (ok)
        log_info("%.2f of %d distractors found room in an image; one attempt in %.0f gave its "
                 "snakes",
                 (double)m.distractors / m.total, style.distractors, (double)m.attempts / m.total);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(m.w[s]);
    mem_free(m.export.rows);
    return ok;
}

/* ---- import ---- */

/* The split of each of n images. */
static unsigned char *choose_splits(int n, uint64_t seed) {
    unsigned char *split = mem_alloc((size_t)n, 1);
    int *perm = mem_alloc((size_t)n, sizeof *perm);
    rng_permutation(perm, n, rng_fold_name(rng_key(seed), "pathfinder.split"));
    for (int i = 0; i < n; i++)
        split[perm[i]] = (unsigned char)(i < n / 10       ? SPLIT_VAL
                                         : i < n / 10 * 2 ? SPLIT_TEST
                                                          : SPLIT_TRAIN);
    mem_free(perm);
    return split;
}

static bool add_tree(Tree *tree, const unsigned char *split, DatasetWriter *const w[SPLITS],
                     int side, int count[SPLITS], Err *err) {
    unsigned char pixels[SIDE_MAX * SIDE_MAX];
    int n = tree_count(tree), skipped = 0;
    for (int i = 0; i < n; i++) {
        bool empty;
        if (!tree_pixels(tree, i, pixels, &empty, err)) return false;
        if (empty) {
            skipped++;
            continue;
        }
        add_image(w[split[i]], pixels, side * side, tree_sample(tree, i).label);
        count[split[i]]++;
        if (i % BATCH == 0) log_progress(false, "images: %d of %d", i, n);
    }
    log_progress_end();
    if (skipped > 0) log_warn("%d of %d image files are empty and were passed over", skipped, n);
    return true;
}

static bool import_tree(const Task *t, const TaskRequest *r, Tree *tree, int side, Err *err) {
    int n = tree_count(tree), count[SPLITS] = {0};
    char source[128];
    DatasetWriter *w[SPLITS];
    if (n < 10) return err_set(err, EX_DATAERR, "%s: %d images, expected at least 10", r->from, n);
    snprintf(source, sizeof source,
             "official files, side %d; split 80 / 10 / 10 %% by seed %" PRIu64, side, r->seed);
    for (int s = 0; s < SPLITS; s++)
        w[s] = dataset_writer(t->name, split_names[s], source, t->vocab, CLASSES, false);
    unsigned char *split = choose_splits(n, r->seed);
    bool ok = add_tree(tree, split, w, side, count, err);
    for (int s = 0; ok && s < SPLITS; s++)
        if (count[s] == 0)
            ok = err_set(err, EX_DATAERR, "%s: no image is left for %s", r->from, split_names[s]);
    if (ok) ok = dataset_write_splits(w, r->out, err);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(w[s]);
    mem_free(split);
    return ok;
}

static bool import(const Task *t, const TaskRequest *r, Err *err) {
    int side;
    if (!read_side(t, r, &side, err)) return false;
    Tree *tree = tree_open(r->from, side, err);
    bool ok = tree && import_tree(t, r, tree, side, err);
    tree_close(tree);
    return ok;
}

/* ---- the two tasks ---- */

static bool recognise(const char *dir) {
    char place[FILE_PATH_MAX];
    return tree_locate(place, dir);
}

static void print(const int *tokens, int length, int label) {
    int side = picture_side(length);
    printf("%s (label %d)\n", class_names[label], label);
    picture_print(tokens, side, length / side);
}

static bool generate_pathfinder(const TaskRequest *r, Err *err) {
    return generate(&task_pathfinder, r, err);
}
static bool import_pathfinder(const TaskRequest *r, Err *err) {
    return import(&task_pathfinder, r, err);
}
static bool generate_pathx(const TaskRequest *r, Err *err) { return generate(&task_pathx, r, err); }
static bool import_pathx(const TaskRequest *r, Err *err) { return import(&task_pathx, r, err); }

static const TaskOption options[] = {
    {"side", "N", "32, 64, 128 or 256 pixels, each with its settings [the task's]", true},
    {"difficulty", "NAME", "easy, intermediate or hard: 6, 9 or 14 dashes a snake [hard]", false},
    {"distractors", "N", "shorter snakes to ask for [the settings']", false},
    {"contrast", "X", "brightness of these; that of the two snakes goes with it", false},
    {"as-released", NULL, "of side 128: 17 distractors at contrast .7, not 8 at .9", false},
    {"png", "DIR", "also writes PNG images and metadata as the official files are", false},
    {NULL, NULL, NULL, false},
};

#define SOURCE "a directory with imgs and metadata, or a tar archive of it"

const Task task_pathfinder = {
    .name = "pathfinder",
    .title = "are two disks joined by a dashed path, pixel by pixel; 32 x 32",
    .vocab = 256,
    .classes = CLASSES,
    .per_example = 1,
    .max_length = 32 * 32,
    .official = {TRAIN, VAL, TEST},
    .source = SOURCE,
    .archive = ARCHIVE,
    .url = URL,
    .options = options,
    .tokens = TOKENS_PIXELS,
    .labels = class_names,
    .import = import_pathfinder,
    .generate = generate_pathfinder,
    .recognise = recognise,
    .print = print,
};

const Task task_pathx = {
    .name = "pathx",
    .title = "the same; 128 x 128",
    .vocab = 256,
    .classes = CLASSES,
    .per_example = 1,
    .max_length = 128 * 128,
    .official = {TRAIN, VAL, TEST},
    .source = SOURCE,
    .archive = ARCHIVE,
    .url = URL,
    .options = options,
    .tokens = TOKENS_PIXELS,
    .labels = class_names,
    .import = import_pathx,
    .generate = generate_pathx,
    .recognise = recognise,
    .print = print,
};
