#include "data/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "data/bytes.h"
#include "data/grey.h"
#include "data/picture.h"
#include "io/png.h"
#include "io/text.h"

enum { BINS = 10, BAR = 40, WIDTH = 16, LABELS_SHOWN = 20, IDS_SHOWN = 16 };

const Task *summary_task(const Dataset *d) {
    const char *name = st_meta(&d->file, "task");
    const bool own = !name && st_meta(&d->file, DATASET_IDS);
    const Task *t = name || own ? task_find(own ? "custom" : name) : NULL;
    if (!t || !task_fits(t, d->vocab, d->classes, d->per_example)) return NULL;
    return task_of_kind(t, dataset_kind(d), d->per_example);
}

/* "  name   12.3 %  1234  #######" with a bar of share / most, and a name of `width` characters. */
static void print_bar(const char *name, int width, int64_t count, int64_t total, int64_t most) {
    char bar[BAR + 1];
    int n = most > 0 ? (int)((double)count / (double)most * BAR + 0.5) : 0;
    memset(bar, '#', sizeof bar);
    bar[n] = 0;
    printf("  %-*s %6.2f %% %11" PRId64 "  %s\n", text_field(name, width), name,
           100.0 * (double)count / (double)total, count, bar);
}

static int64_t largest(const int64_t *count, int n) {
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        if (count[i] > most) most = count[i];
    return most;
}

static void print_meta(const Dataset *d, const char *key) {
    const char *text = st_meta(&d->file, key);
    printf("  %-8s ", key);
    text_plain(stdout, text ? text : "not stated"); /* one line, whatever it holds */
    putchar('\n');
}

static void print_head(const Dataset *d) {
    char tokens[32];
    int64_t total = d->offsets[d->documents];
    text_print(stdout, "%s\n", d->file.path);
    print_meta(d, "task");
    print_meta(d, "split");
    print_meta(d, "source");
    print_meta(d, "hash");
    printf("  %-8s %d examples, %d documents, %s tokens, vocabulary %d, %d classes\n", "size",
           d->examples, d->documents, format_count(tokens, sizeof tokens, (double)total), d->vocab,
           d->classes);
}

static int compare_ints(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void print_bins(const int *sorted, int n) {
    int64_t bin[BINS] = {0};
    int low = sorted[0], width = (sorted[n - 1] - low) / BINS + 1;
    for (int i = 0; i < n; i++) bin[(sorted[i] - low) / width]++;
    int64_t most = largest(bin, BINS);
    for (int b = 0; b < BINS && (int64_t)low + (int64_t)b * width <= sorted[n - 1]; b++) {
        char name[48];
        int64_t from = (int64_t)low + (int64_t)b * width;
        snprintf(name, sizeof name, "%" PRId64 " - %" PRId64, from, from + width - 1);
        print_bar(name, WIDTH, bin[b], n, most);
    }
}

static void print_lengths(const Dataset *d) {
    static const int percent[] = {0, 5, 25, 50, 75, 95, 100};
    int n = d->documents;
    int *length = mem_alloc((size_t)n, sizeof *length);
    for (int i = 0; i < n; i++) length[i] = dataset_length(d, i);
    qsort(length, (size_t)n, sizeof *length, compare_ints);
    printf("lengths: mean %.1f", (double)d->offsets[n] / n);
    for (size_t i = 0; i < sizeof percent / sizeof *percent; i++)
        printf(", %d %%: %d", percent[i], length[(int64_t)(n - 1) * percent[i] / 100]);
    putchar('\n');
    if (length[0] < length[n - 1]) print_bins(length, n);
    mem_free(length);
}

static void print_labels(const Dataset *d, const Task *task) {
    int64_t *count = mem_alloc((size_t)d->classes, sizeof *count);
    for (int i = 0; i < d->examples; i++) count[d->labels[i]]++;
    int64_t most = largest(count, d->classes);
    printf("labels: %d classes; always the most frequent one would be right in %.2f %%\n",
           d->classes, 100.0 * (double)most / d->examples);
    const int shown = d->classes < LABELS_SHOWN ? d->classes : LABELS_SHOWN;
    char name[LABELS_SHOWN][64];
    int width = WIDTH;
    for (int k = 0; k < shown; k++) {
        class_text(k, task_class(task, &d->class_names, k), name[k], sizeof name[k]);
        if (text_width(name[k]) > width) width = text_width(name[k]);
    }
    for (int k = 0; k < shown; k++) print_bar(name[k], width, count[k], d->examples, most);
    if (d->classes > LABELS_SHOWN) printf("  ... %d more\n", d->classes - LABELS_SHOWN);
    mem_free(count);
}

typedef struct IdCount {
    int64_t count;
    int id;
} IdCount;

static int compare_counts(const void *a, const void *b) {
    const IdCount *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : (x->id > y->id) - (x->id < y->id);
}

/* The task's word, or the character of a byte; NULL: neither. */
static const char *id_name(const Task *task, int id, char buf[BYTES_CHARACTER]) {
    if (task && task->words) return task->words[id];
    if (!task || task->tokens != TOKENS_BYTES) return NULL;
    bytes_character(buf, &id, 1);
    return strcmp(buf, " ") ? buf : "blank";
}

static void print_ids(const Dataset *d, const Task *task) {
    char buf[BYTES_CHARACTER];
    IdCount *ids = mem_alloc((size_t)d->vocab, sizeof *ids);
    int64_t total = d->offsets[d->documents];
    for (int v = 0; v < d->vocab; v++) ids[v].id = v;
    for (int64_t i = 0; i < total; i++) ids[dataset_id(d, i)].count++;
    qsort(ids, (size_t)d->vocab, sizeof *ids, compare_counts);
    int used = 0;
    while (used < d->vocab && ids[used].count > 0) used++;
    printf("vocabulary: %d of %d ids occur%s\n", used, d->vocab,
           used > IDS_SHOWN ? "; the most frequent:" : "");
    for (int v = 0; v < used && v < IDS_SHOWN; v++) {
        char both[32];
        const char *name = id_name(task, ids[v].id, buf);
        snprintf(both, sizeof both, "%d%s%s", ids[v].id, name ? " " : "", name ? name : "");
        print_bar(both, WIDTH, ids[v].count, total, ids[0].count);
    }
    mem_free(ids);
}

void summary_print(const Dataset *d) {
    const Task *task = summary_task(d);
    print_head(d);
    print_lengths(d);
    print_labels(d, task);
    print_ids(d, task);
}

/* As a person reads them: the task's words, its bytes as text, a square of pixels; else numbers. */
static void print_tokens(const Task *t, const int *ids, int n) {
    const TaskTokens kind = t ? t->tokens : TOKENS_VALUES;
    const int side = picture_side(n);
    if (kind == TOKENS_PIXELS) picture_print(ids, side, n / side);
    if (kind == TOKENS_BYTES) bytes_print(ids, n);
    for (int i = 0; kind == TOKENS_VALUES && i < n; i++)
        if (t && t->words)
            printf("%s ", t->words[ids[i]]);
        else
            printf("%d ", ids[i]);
}

static bool may_augment(const Dataset *d, const SummaryExample *e, Err *err) {
    const Task *task = summary_task(d);
    return !e->augment || (task && task->augment) ||
           err_set(err, EX_USAGE, "--augment: %s: its task has no augmentation", d->file.path);
}

/* Of a document of the example, to be freed; *n: how many. */
static int *read_ids(const Dataset *d, const SummaryExample *e, int which, int *n) {
    const Task *task = summary_task(d);
    const int document = dataset_document(d, e->index, which), length = dataset_length(d, document);
    int *ids = mem_alloc((size_t)length * (1 + AUGMENT_SCRATCH), sizeof *ids);
    *n = dataset_tokens(d, document, length, ids);
    if (!e->augment) return ids;
    Augment settings = {0};
    Err none;
    if (task->augment_keys) schema_read(&settings, task->augment_keys, NULL, "", "", NULL, &none);
    task->augment(&settings, ids, length, ids + length, augment_key(e->seed, 0, e->index, which));
    return ids;
}

/* A class that has a name stands above its document, but below a pair. */
bool summary_print_example(const Dataset *d, const SummaryExample *e, Err *err) {
    const Task *task = summary_task(d);
    if (!may_augment(d, e, err)) return false;
    const bool pair = d->per_example > 1, values = !task || task->tokens == TOKENS_VALUES;
    const int label = d->labels[e->index];
    const char *name = task_class(task, &d->class_names, label);
    if (name && !pair) printf("%s (label %d)\n", name, label);
    for (int which = 0; which < d->per_example; which++) {
        int n, *ids = read_ids(d, e, which, &n);
        if (pair) printf("document %d:\n", dataset_document(d, e->index, which));
        print_tokens(task, ids, n);
        if (values && pair && which == 0) putchar('\n');
        mem_free(ids);
    }
    if (name && pair) printf("= %s (label %d)\n", name, label);
    if (!name) printf("= %s%d\n", task && task->words ? "" : "label ", label);
    return true;
}

bool summary_write_png(const Dataset *d, const SummaryExample *e, const char *path, Err *err) {
    const Task *task = summary_task(d);
    int n = dataset_length(d, dataset_document(d, e->index, 0));
    int side = picture_side(n), label = d->labels[e->index];
    const bool may = task && (task->tokens == TOKENS_PIXELS || task->vocab == 0);
    if (!may || d->per_example > 1 || d->vocab > GREYS)
        return err_set(err, EX_USAGE, "--png: %s: its examples are no grey pictures", d->file.path);
    if ((int64_t)side * side != n)
        return err_set(err, EX_USAGE, "--png: %s: example %d: %d tokens are no square of pixels",
                       d->file.path, e->index, n);
    if (!may_augment(d, e, err)) return false;
    int *ids = read_ids(d, e, 0, &n);
    unsigned char *grey = mem_alloc((size_t)n, 1);
    for (int i = 0; i < n; i++) grey[i] = (unsigned char)ids[i];
    bool ok = png_grey_write(path, grey, side, side, err);
    mem_free(grey);
    mem_free(ids);
    const char *name = task_class(task, &d->class_names, label);
    if (ok)
        text_print(stdout, "%s: %d x %d pixels, %s (label %d)\n", path, side, side,
                   name ? name : task->name, label);
    return ok;
}
