#include "train/predict.h"

#include <math.h>

#include "core/log.h"
#include "io/json_print.h"
#include "io/text.h"

/* ---- one example ---- */

/* Without fmax, by which gcc 12 for AArch64 fails to find the largest of floats as a double. */
void predict_probabilities(double *p, const real *logits, int K) {
    double most = (double)logits[0], sum = 0;
    for (int k = 1; k < K; k++) most = (double)logits[k] > most ? (double)logits[k] : most;
    for (int k = 0; k < K; k++) sum += p[k] = exp((double)logits[k] - most);
    for (int k = 0; k < K; k++) p[k] /= sum;
}

void predict_heading(FILE *f, int K) {
    fputs("index,label,predicted", f);
    for (int k = 0; k < K; k++) fprintf(f, ",p%d", k);
}

void predict_row(FILE *f, int index, int label, int predicted, const double *p, int K) {
    fprintf(f, "%d,", index);
    if (label >= 0) fprintf(f, "%d", label);
    fprintf(f, ",%d", predicted);
    for (int k = 0; k < K; k++) fprintf(f, ",%.7g", p[k]);
}

bool predict_no_classes(const Trained *t, const char *option, Err *err) {
    return err_set(err, EX_USAGE,
                   "--%s: %s was trained to guess masked tokens (train.objective=masked): it knows "
                   "no classes",
                   option, t->from.path);
}

/* ---- all ---- */

typedef struct Collector {
    Predictions *p;
    int n;
} Collector;

static void collect(void *ctx, const Batch *b) {
    Collector *c = ctx;
    const size_t K = (size_t)c->p->K;
    for (int i = 0; i < b->n; i++, c->n++) {
        c->p->predicted[c->n] = b->out.predicted[i];
        predict_probabilities(c->p->p + (size_t)c->n * K, b->out.logits + (size_t)i * K, (int)K);
    }
}

static int count_cut(const Trained *t) {
    const Dataset *d = &t->loader.split[t->split];
    int n = 0;
    for (int i = 0; i < d->documents; i++)
        n += dataset_length(d, i) > t->config.model.conf.max_length;
    return n;
}

static const double *probabilities(const Predictions *p, int i) {
    return p->p + (size_t)i * (size_t)p->K;
}

static bool write_csv(AtomicFile *a, const Predictions *p, const Trained *t, Err *err) {
    predict_heading(a->f, p->K);
    fputs(",example\n", a->f);
    for (int i = 0; i < p->n; i++) {
        predict_row(a->f, i, -1, p->predicted[i], probabilities(p, i), p->K);
        fputc(',', a->f);
        text_csv(a->f, t->input.name[i]);
        fputc('\n', a->f);
    }
    return atomic_commit(a, err);
}

bool predict(Predictions *p, Trained *t, const char *csv, Err *err) {
    Score unused;
    AtomicFile a = {.f = NULL};
    const int K = t->config.model.task.classes, n = t->loader.examples[t->split];
    if (trained_guesses(t)) return predict_no_classes(t, "input", err);
    if (csv && !atomic_open(&a, csv, KIND_PREDICTIONS, err)) return false;
    *p = (Predictions){.n = n, .K = K, .cut = count_cut(t)};
    p->predicted = mem_alloc((size_t)n, sizeof *p->predicted);
    p->p = mem_alloc((size_t)n * (size_t)K, sizeof *p->p);
    Collector c = {p, 0};
    const Watch watch = {.batch = collect, .ctx = &c};
    const double start = clock_seconds();
    bool ok = trained_evaluate(&unused, t, "predicting", &watch, err);
    p->seconds = clock_seconds() - start;
    if (ok && csv) ok = write_csv(&a, p, t, err);
    atomic_abandon(&a);
    if (!ok) predictions_free(p);
    return ok;
}

void predictions_free(Predictions *p) {
    mem_free(p->predicted);
    mem_free(p->p);
    *p = (Predictions){0};
}

/* ---- printing ---- */

void predictions_print(FILE *f, const Predictions *p, const Trained *t) {
    char class[64], seconds[32], rate[32];
    int width = 24;
    trained_warn(t);
    for (int i = 0; i < p->n; i++) {
        const int n = text_width(trained_class(t, p->predicted[i], class, sizeof class));
        if (n > width) width = n;
    }
    fprintf(f, "probability  %-*s  example\n", width, "class");
    for (int i = 0; i < p->n; i++) {
        trained_class(t, p->predicted[i], class, sizeof class);
        fprintf(f, "%9.2f %%  %-*s  ", 100 * probabilities(p, i)[p->predicted[i]],
                text_field(class, width), class);
        text_plain(f, t->input.name[i]);
        fputc('\n', f);
    }
    if (p->cut)
        log_warn("%d document%s longer than the %d tokens that the model reads: what follows those "
                 "was not looked at",
                 p->cut, p->cut == 1 ? " is" : "s are", t->config.model.conf.max_length);
    log_info("%d example%s in %s: %s a second", p->n, p->n == 1 ? "" : "s",
             format_duration(seconds, sizeof seconds, p->seconds),
             format_count(rate, sizeof rate, p->n / p->seconds));
}

static cJSON *prediction(const Predictions *p, const Trained *t, int i) {
    const char *class = config_class(&t->config, p->predicted[i]);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "example", t->input.name[i]);
    cJSON_AddNumberToObject(o, "predicted", p->predicted[i]);
    if (class) cJSON_AddStringToObject(o, "class", class);
    cJSON_AddItemToObject(o, "probabilities", cJSON_CreateDoubleArray(probabilities(p, i), p->K));
    return o;
}

void predictions_print_json(FILE *f, const Predictions *p, const Trained *t) {
    cJSON *o = trained_json(t);
    cJSON_AddNumberToObject(o, "count", p->n);
    cJSON_AddNumberToObject(o, "cut", p->cut);
    cJSON_AddNumberToObject(o, "seconds", p->seconds);
    cJSON_AddNumberToObject(o, "samples_per_s", p->n / p->seconds);
    trained_add_classes(t, o);
    cJSON *list = cJSON_AddArrayToObject(o, "predictions");
    for (int i = 0; i < p->n; i++) cJSON_AddItemToArray(list, prediction(p, t, i));
    json_print_line(f, o);
    cJSON_Delete(o);
}
