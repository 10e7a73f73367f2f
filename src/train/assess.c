#include "train/assess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/json_print.h"
#include "io/text.h"
#include "train/predict.h"

enum { CLASSES_SHOWN = 12, MISTAKES_SHOWN = 10 };

/* ---- what is collected ---- */

typedef struct Item {
    int length, answers, correct;
} Item;

typedef struct Collector {
    Assessment *a;
    const Trained *t;
    Item *items; /* (count) */
    int n;
    AtomicFile csv; /* f NULL: not wanted */
    double *p;      /* (K) */
} Collector;

static void write_row(const Collector *c, const Batch *b, int i) {
    const int K = c->a->K;
    predict_probabilities(c->p, b->out.logits + (size_t)i * (size_t)K, K);
    predict_row(c->csv.f, c->n, b->samples[i].label, b->out.predicted[i], c->p, K);
    fputc('\n', c->csv.f);
}

static void count_class(Collector *c, const Batch *b, int i) {
    Assessment *a = c->a;
    const int label = b->samples[i].label, predicted = b->out.predicted[i];
    a->labels[label]++;
    if (a->confusion) a->confusion[(size_t)label * (size_t)a->K + (size_t)predicted]++;
    if (c->csv.f) write_row(c, b, i);
}

static void count_flops(Assessment *a, const Model *m, const Sample *s) {
    for (int i = 0; i < m->task.per_example; i++)
        model_attention_flops(m, s->length[i], &a->flops, &a->exact);
}

static void collect(void *ctx, const Batch *b) {
    Collector *c = ctx;
    for (int i = 0; i < b->n; i++) {
        count_flops(c->a, &c->t->config.model, &b->samples[i]);
        const double length = loader_tokens(&c->t->loader, c->t->split, b->examples[i]);
        if (c->a->K) count_class(c, b, i);
        c->a->cut += loader_cuts(&c->t->loader, c->t->split, b->examples[i]);
        c->items[c->n++] = (Item){(int)length, b->answers[i], b->out.correct[i]};
    }
}

static bool open_csv(Collector *c, const char *path, Err *err) {
    if (!path) return true;
    if (trained_guesses(c->t)) return predict_no_classes(c->t, "predict", err);
    if (!atomic_open(&c->csv, path, KIND_PREDICTIONS, err)) return false;
    predict_heading(c->csv.f, c->a->K);
    fputc('\n', c->csv.f);
    return true;
}

/* ---- by length ---- */

static int by_length(const void *x, const void *y) {
    const Item *a = x, *b = y;
    return (a->length > b->length) - (a->length < b->length);
}

/* Bins end at the quantiles; equal lengths stay together, so that there may be fewer. */
static void bin_lengths(Assessment *a, Item *items) {
    qsort(items, (size_t)a->count, sizeof *items, by_length);
    if (items[0].length == items[a->count - 1].length) return;
    for (int i = 0, q = 0; q < ASSESS_BINS; q++) {
        const int last = (int)((int64_t)a->count * (q + 1) / ASSESS_BINS) - 1;
        if (last < i) continue;
        LengthBin *b = &a->bin[a->bins++];
        *b = (LengthBin){.from = items[i].length, .to = items[last].length};
        for (; i < a->count && items[i].length <= b->to; i++) {
            b->count++;
            b->answers += items[i].answers;
            b->correct += items[i].correct;
        }
    }
}

/* ---- the whole ---- */

static bool run(Collector *c, Trained *t, Err *err) {
    const Watch watch = {.batch = collect, .ctx = c, .most = c->a->count};
    return trained_evaluate(&c->a->score, t, "evaluating", &watch, err) &&
           (!c->csv.f || atomic_commit(&c->csv, err));
}

bool assess(Assessment *a, Trained *t, const char *predict, int limit, Err *err) {
    const size_t K = trained_guesses(t) ? 0 : (size_t)t->config.model.task.classes;
    const int all = t->loader.examples[t->split];
    const size_t count = (size_t)(limit && limit < all ? limit : all);
    *a = (Assessment){.count = (int)count, .K = (int)K};
    a->labels = mem_alloc(K, sizeof *a->labels);
    if (K && K <= ASSESS_MOST_CLASSES) a->confusion = mem_alloc(K * K, sizeof *a->confusion);
    Collector c = {.a = a, .t = t};
    c.items = mem_alloc(count, sizeof *c.items);
    c.p = mem_alloc(K, sizeof *c.p);
    const bool ok = open_csv(&c, predict, err) && run(&c, t, err);
    if (ok) bin_lengths(a, c.items);
    atomic_abandon(&c.csv);
    mem_free(c.items);
    mem_free(c.p);
    if (!ok) assess_free(a);
    return ok;
}

void assess_free(Assessment *a) {
    mem_free(a->labels);
    mem_free(a->confusion);
    *a = (Assessment){0};
}

/* ---- for people ---- */

static double share(int part, int whole) { return whole ? (double)part / whole : NAN; }

static int at(const Assessment *a, int label, int predicted) {
    return a->confusion[(size_t)label * (size_t)a->K + (size_t)predicted];
}

static void print_confusion(FILE *f, const Assessment *a, const Trained *t) {
    char name[64];
    int width = 16;
    for (int k = 0; k < a->K; k++) {
        const int n = text_width(trained_class(t, k, name, sizeof name));
        if (n > width) width = n;
    }
    fprintf(f, "\nconfusion: a row a label, a column what was predicted\n  %-*s", width, "");
    for (int k = 0; k < a->K; k++) fprintf(f, " %6d", k);
    fprintf(f, "    right\n");
    for (int i = 0; i < a->K; i++) {
        trained_class(t, i, name, sizeof name);
        fprintf(f, "  %-*s", text_field(name, width), name);
        for (int k = 0; k < a->K; k++) fprintf(f, at(a, i, k) ? " %6d" : "      .", at(a, i, k));
        if (a->labels[i])
            fprintf(f, "  %5.1f %%\n", 100 * share(at(a, i, i), a->labels[i]));
        else
            fprintf(f, "  none\n");
    }
}

/* Of many classes only what is mistaken most often. */
static void print_mistakes(FILE *f, const Assessment *a, const Trained *t) {
    char label[64], predicted[64];
    fprintf(f, "\nmost frequent mistakes of %d classes\n", a->K);
    for (int n = 0, below = a->count + 1; n < MISTAKES_SHOWN && below > 0;) {
        int most = 0;
        for (int i = 0; i < a->K; i++)
            for (int k = 0; k < a->K; k++)
                if (i != k && at(a, i, k) < below && at(a, i, k) > most) most = at(a, i, k);
        for (int i = 0; i < a->K && most; i++)
            for (int k = 0; k < a->K && n < MISTAKES_SHOWN; k++)
                if (i != k && at(a, i, k) == most)
                    n++, fprintf(f, "  %6d  %s taken for %s\n", most,
                                 trained_class(t, i, label, sizeof label),
                                 trained_class(t, k, predicted, sizeof predicted));
        below = most;
    }
}

static void print_lengths(FILE *f, const Assessment *a, const Trained *t) {
    fprintf(f, "\nby length: tokens, examples, accuracy\n");
    for (int i = 0; i < a->bins; i++) {
        const LengthBin *b = &a->bin[i];
        const double right = share(b->correct, b->answers);
        char error[32] = "";
        if (!trained_guesses(t))
            snprintf(error, sizeof error, " ± %.1f", 100 * score_error(right, b->count));
        fprintf(f, "  %6d to %-6d %8d  %5.1f%s %%\n", b->from, b->to, b->count, 100 * right, error);
    }
}

/* What training measured of the same weights, where that is known. */
static const RunLine *measured(const Assessment *a, const Trained *t) {
    const int which = source_is_last(&t->from) ? RUN_LAST : RUN_BEST;
    if (!t->from.run.dir[0] || t->kept || t->split != SPLIT_TEST || !trained_as_it_was(t))
        return NULL;
    const RunLine *l = &t->from.run.test[which];
    const bool same = l->step == t->from.update && l->value[RUN_COUNT] == a->count;
    return t->from.run.tested[which] && same ? l : NULL;
}

/* With the standard error of so many examples; 0: without. */
static const char *describe(char *buf, size_t size, const Score *s, int examples,
                            const Trained *t) {
    char accuracy[64], loss[64];
    const int objective = t->config.train.objective;
    snprintf(buf, size, "%s, %s",
             accuracy_text(accuracy, sizeof accuracy, s->accuracy, examples, objective),
             loss_text(loss, sizeof loss, s->loss, objective));
    return buf;
}

static void print_measured(FILE *f, const Assessment *a, const Trained *t, const RunLine *l) {
    char was[96], now[96];
    const Score then = {l->value[RUN_ACCURACY], l->value[RUN_LOSS]};
    if (!strcmp(describe(was, sizeof was, &then, 0, t), describe(now, sizeof now, &a->score, 0, t)))
        fprintf(f, "as cast_train measured it\n");
    else
        fprintf(f, "cast_train measured %s: the data, the program or the machine is another\n",
                was);
}

static void print_commonest(FILE *f, const Assessment *a, const Trained *t) {
    char name[64];
    int commonest = 0;
    for (int k = 1; k < a->K; k++)
        if (a->labels[k] > a->labels[commonest]) commonest = k;
    fprintf(f, "always answering %s would give %.2f %%\n",
            trained_class(t, commonest, name, sizeof name),
            100 * share(a->labels[commonest], a->count));
}

void assess_print(FILE *f, const Assessment *a, const Trained *t) {
    char score[128];
    trained_print(f, t);
    fprintf(f, "\n%s accuracy of %s (update %lld): %s, %d examples\n", split_names[t->split],
            t->from.which, (long long)t->from.update,
            describe(score, sizeof score, &a->score, a->count, t), a->count);
    if (!trained_guesses(t))
        fprintf(f, "± is the standard error of a share p of so many examples, "
                   "sqrt(p (1 - p) / examples)\n");
    if (a->cut)
        fprintf(f, "%d of them %s longer than the %d tokens that the model reads, and cut\n",
                a->cut, a->cut == 1 ? "is" : "are", t->config.model.conf.max_length);
    const RunLine *l = measured(a, t);
    if (l) print_measured(f, a, t, l);
    if (a->K) print_commonest(f, a, t);
    if (a->bins) print_lengths(f, a, t);
    if (!a->confusion) return;
    if (a->K <= CLASSES_SHOWN)
        print_confusion(f, a, t);
    else
        print_mistakes(f, a, t);
}

/* ---- for programs ---- */

static cJSON *lengths_json(const Assessment *a) {
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < a->bins; i++) {
        const LengthBin *b = &a->bin[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "from", b->from);
        cJSON_AddNumberToObject(o, "to", b->to);
        cJSON_AddNumberToObject(o, "count", b->count);
        cJSON_AddNumberToObject(o, "accuracy", share(b->correct, b->answers));
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

void assess_print_json(FILE *f, const Assessment *a, const Trained *t) {
    cJSON *o = trained_json(t);
    cJSON_AddNumberToObject(o, "count", a->count);
    cJSON_AddNumberToObject(o, "cut", a->cut);
    cJSON_AddNumberToObject(o, "accuracy", a->score.accuracy);
    cJSON_AddNumberToObject(o, "loss", a->score.loss);
    if (trained_guesses(t)) cJSON_AddNumberToObject(o, "bits", a->score.loss / log(2));
    if (!trained_guesses(t))
        cJSON_AddNumberToObject(o, "accuracy_error", score_error(a->score.accuracy, a->count));
    cJSON_AddNumberToObject(o, "flops_share", a->flops / a->exact);
    trained_add_classes(t, o);
    if (a->K) cJSON_AddItemToObject(o, "labels", cJSON_CreateIntArray(a->labels, a->K));
    cJSON_AddItemToObject(o, "by_length", lengths_json(a));
    cJSON *rows = a->confusion ? cJSON_AddArrayToObject(o, "confusion") : NULL;
    for (int k = 0; k < a->K && rows; k++)
        cJSON_AddItemToArray(rows,
                             cJSON_CreateIntArray(a->confusion + (size_t)k * (size_t)a->K, a->K));
    cJSON_AddItemToObject(o, "config", cJSON_Duplicate(t->config.resolved, true));
    json_print_line(f, o);
    cJSON_Delete(o);
}
