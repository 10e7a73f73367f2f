/* Pathfinder and Path-X: are the two disks at the ends of one snake? Pixel by pixel, as 1024 and
 * 16384 intensities; the id is the intensity. One program under two names, with other settings.
 *
 * Generate draws images by the official program's rules (data/snakes.h) and may write them as the
 * official files too. Path-X's released images look as if they had 17 distractors at contrast .7
 * (github.com/bhattarailab/pathfinder-generator) where 8 at .9 are documented; --as-released makes
 * the former.
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
#include "data/pathfinder_tree.h"
#include "data/picture.h"
#include "data/snakes.h"
#include "data/task.h"
#include "io/png.h"

enum {
    CLASSES = 2,
    ROUND = 256,  /* images between two reports */
    BATCH = 1000, /* images of a folder of official files */
    ROW = 128     /* bytes of a line of metadata, at most */
};

#define ARCHIVE "lra_release.gz"
#define URL "https://storage.googleapis.com/long-range-arena/" ARCHIVE

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
    snakes_draw(r->snakes, r->seed, r->first + (uint64_t)lane, r->image + (size_t)lane * r->pixels,
                &r->facts[lane]);
}

/* Official files that are being written. */
typedef struct Export {
    const char *dir; /* NULL: none are */
    const SnakeStyle *style;
    AtomicFile metadata; /* of the batch */
} Export;

static bool export_open(Export *e, int batch, Err *err) {
    char path[FILE_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/imgs/%d", e->dir, batch);
    if (n >= FILE_PATH_MAX - 32)
        return err_set(err, EX_CANTCREAT, "--png: %.80s...: the name is too long", e->dir);
    if (!file_make_dirs(path, err)) return false;
    snprintf(path, sizeof path, "%s/metadata", e->dir);
    if (!file_make_dirs(path, err)) return false;
    snprintf(path, sizeof path, "%s/metadata/%d.npy", e->dir, batch);
    return atomic_open(&e->metadata, path, KIND_PATHFINDER, err);
}

/* Image i of `total`, with the line of metadata that LRA's release has. */
static bool export_add(Export *e, int i, int total, const uint8_t *pixels, const SnakeFacts *facts,
                       Err *err) {
    const SnakeStyle *s = e->style;
    char path[FILE_PATH_MAX], row[ROW];
    int batch = i / BATCH, number = i % BATCH;
    if (!e->dir) return true;
    if (number == 0 && !export_open(e, batch, err)) return false;
    snprintf(path, sizeof path, "%s/imgs/%d/sample_%d.png", e->dir, batch, number);
    if (!png_grey_write(path, pixels, s->side, s->side, err)) return false;
    int n = snprintf(row, sizeof row, "imgs/%d sample_%d.png %d %d %.1f %d %d %d %.1f %d 1\n",
                     batch, number, number, facts->label, s->continuity, s->paddles,
                     s->distractor_size, s->length, s->thickness, facts->margin);
    atomic_write(&e->metadata, row, (size_t)n);
    return (number < BATCH - 1 && i < total - 1) || atomic_commit(&e->metadata, err);
}

typedef struct Making {
    const TaskRequest *r;
    DatasetWriter *w[SPLITS];
    Export export;
    int total, done;
    int64_t distractors, attempts;
    LogCount progress;
} Making;

static bool take_round(Making *m, const Round *r, int count, Err *err) {
    for (int i = 0; i < count; i++, m->done++) {
        const uint8_t *pixels = r->image + (size_t)i * r->pixels;
        DatasetWriter *w = m->w[task_split(m->r, m->done)];
        dataset_add_example(w, r->facts[i].label, dataset_add_bytes(w, pixels, r->pixels, 0), -1);
        m->distractors += r->facts[i].distractors;
        m->attempts += r->facts[i].attempts;
        if (!export_add(&m->export, m->done, m->total, pixels, &r->facts[i], err)) return false;
    }
    return true;
}

static bool make_images(Making *m, const SnakeStyle *style, Err *err) {
    Snakes *snakes = snakes_open(style);
    Round r = {.snakes = snakes, .seed = m->r->seed, .pixels = (size_t)(style->side * style->side)};
    bool ok = true;
    r.image = mem_alloc(ROUND, r.pixels);
    while (ok && m->done < m->total) {
        int count = m->total - m->done < ROUND ? m->total - m->done : ROUND;
        r.first = (uint64_t)m->done;
        lanes_run(count, draw_lane, &r);
        ok = take_round(m, &r, count, err);
        log_count(&m->progress, m->done, m->total);
    }
    log_progress_end();
    snakes_close(snakes);
    mem_free(r.image);
    return ok;
}

/* All images are held until they are written, so it is better to hear of too little memory now. */
static bool check_room(const Task *t, const SnakeStyle *s, int total, Err *err) {
    char need[32], have[32];
    double bytes = 1.5 * total * s->side * s->side;
    size_t there = mem_available();
    if (there == 0 || bytes <= (double)there) return true;
    return err_set(err, EX_OSERR,
                   "%s: out of memory: %d images take %s while they are made, there are %s; "
                   "--train asks for fewer",
                   t->name, total, format_bytes(need, sizeof need, bytes),
                   format_bytes(have, sizeof have, (double)there));
}

static bool generate(const Task *t, const TaskRequest *r, Err *err) {
    SnakeStyle style;
    Making m = {.r = r, .total = r->test + r->val + r->train};
    if (!read_style(t, r, &style, err) || !check_room(t, &style, m.total, err)) return false;
    m.export = (Export){.dir = task_setting(r, "png"), .style = &style};
    m.progress = log_count_start(t->name, "images");
    task_writers(m.w, t,
                 "generated by the rules of Pathfinder's snakes2.py: side %d, %d paddles, %d "
                 "distractors, contrast %g; seed %" PRIu64,
                 style.side, style.paddles, style.distractors, style.contrast, r->seed);
    bool ok = task_finish(m.w, make_images(&m, &style, err), r->out, err);
    if (ok)
        log_info("%.2f of %d distractors found room in an image; one attempt in %.0f gave its "
                 "snakes",
                 (double)m.distractors / m.total, style.distractors, (double)m.attempts / m.total);
    atomic_abandon(&m.export.metadata);
    return ok;
}

/* ---- import ---- */

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
        DatasetWriter *to = w[split[i]];
        const int document = dataset_add_bytes(to, pixels, (size_t)(side * side), 0);
        dataset_add_example(to, tree_sample(tree, i).label, document, -1);
        count[split[i]]++;
        if (i % BATCH == 0) log_progress(false, "images: %d of %d", i, n);
    }
    log_progress_end();
    if (skipped > 0) log_warn("%d of %d image files are empty and were passed over", skipped, n);
    return true;
}

static bool import_tree(const Task *t, const TaskRequest *r, Tree *tree, int side, Err *err) {
    int n = tree_count(tree), count[SPLITS] = {0};
    DatasetWriter *w[SPLITS];
    if (n < 10) return err_set(err, EX_DATAERR, "%s: %d images, expected at least 10", r->from, n);
    task_writers(w, t, "official files, side %d; split 80 / 10 / 10 %% by seed %" PRIu64, side,
                 r->seed);
    unsigned char *split = task_deal(n, n / 10, n / 10, r->seed, "pathfinder.split");
    bool ok = add_tree(tree, split, w, side, count, err);
    for (int s = 0; ok && s < SPLITS; s++)
        if (count[s] == 0)
            ok = err_set(err, EX_DATAERR, "%s: no image is left for %s", r->from, split_names[s]);
    mem_free(split);
    return task_finish(w, ok, r->out, err);
}

static bool import(const Task *t, const TaskRequest *r, Err *err) {
    char place[FILE_PATH_MAX];
    int side;
    if (!read_side(t, r, &side, err) || !task_place(t, place, r->from, err)) return false;
    Tree *tree = tree_open(place, side, err);
    bool ok = tree && import_tree(t, r, tree, side, err);
    tree_close(tree);
    return ok;
}

/* ---- the two tasks ---- */

static const TaskOption options[] = {
    {"side", "N", "32, 64, 128 or 256 pixels, each with its settings [the task's]", true},
    {"difficulty", "NAME", "easy, intermediate or hard: 6, 9 or 14 dashes a snake [hard]", false},
    {"distractors", "N", "shorter snakes to ask for [the settings']", false},
    {"contrast", "X", "brightness of these; that of the two snakes goes with it", false},
    {"as-released", NULL, "of side 128: 17 distractors at contrast .7, not 8 at .9", false},
    {"png", "DIR", "also writes PNG images and metadata as the official files are", false},
    {NULL, NULL, NULL, false},
};

/* What the two rows share. */
#define PATHFINDER                                                                                 \
    .vocab = 256, .classes = CLASSES, .per_example = 1, .official = {160000, 20000, 20000},        \
    .most = 10000000, .source = "a directory with imgs and metadata, or a tar archive of it",      \
    .archive = ARCHIVE, .url = URL, .options = options, .tokens = TOKENS_PIXELS,                   \
    .labels = class_names, .import = import, .generate = generate, .locate = tree_locate,          \
    .holds = "imgs and metadata, nor " PATHFINDER_HARD, .unpacks = true,                           \
    .augment = augment_symmetry

const Task task_pathfinder = {
    .name = "pathfinder",
    .title = "are two disks joined by a dashed path, pixel by pixel; 32 x 32",
    .max_length = 32 * 32,
    .masked = 0.5,
    PATHFINDER,
};

const Task task_pathx = {
    .name = "pathx",
    .title = "the same; 128 x 128",
    .max_length = 128 * 128,
    .masked = 0.5,
    PATHFINDER,
};
