#include "report/papers.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "io/text.h"
#include "report/chance.h"
#include "report/marks.h"

const char *const paper_tasks[PAPER_TASKS] = {"listops", "text",       "retrieval",
                                              "image",   "pathfinder", "pathx"};
static const char *const titles[PAPER_TASKS] = {"ListOps", "Text",       "Retrieval",
                                                "Image",   "Pathfinder", "Path-X"};

#define LRA "Tay et al. 2021, arXiv:2011.04006"
#define NYS "Xiong et al. 2021, arXiv:2102.03902, and the table in its repository"
#define MEGA "Ma et al. 2022, arXiv:2209.10655, table 2"
#define CAST "van Engelenhoven et al. 2024, arXiv:2402.04239; recalled, not checked"
#define LUNA "Ma et al. 2021, arXiv:2106.01540; recalled, not checked"
#define LISTED "external entry in Long Range Arena's repository"
#define QUOTED(id) "arXiv:" id ", as later papers quote it"
#define AMOS "Amos et al. 2023, arXiv:2310.02980; recalled, not checked"
#define NONE PAPER_NONE
#define FAIL PAPER_FAIL

/* What Long Range Arena's code computes under a name that a mechanism of ours has as well, but is
 * something else, is told beside it. Retrieval near 57 of the first rows comes of fewer updates
 * than the warm-up has, and Pathfinder's 71 was not reached by the official code cleaned up
 * (E/LRA); the reruns of others are rows of their own. */
const Paper papers[] = {
    {"Transformer", {36.37, 64.27, 57.46, 42.44, 71.40, FAIL}, LRA},
    {"Transformer (E/LRA's)",
     {37.35, 63.72, 59.53, 42.14, 50.57, FAIL},
     "github.com/lucaslingle/e-lra, the official code cleaned up"},
    {"Local Attention",
     {15.82, 52.98, 53.39, 41.46, 66.63, FAIL},
     LRA "; not our local: its code attends to strided tokens"},
    {"Sparse Transformer", {17.07, 63.58, 59.59, 44.24, 71.71, FAIL}, LRA},
    {"Longformer", {35.63, 62.85, 56.89, 42.22, 69.71, FAIL}, LRA},
    {"Linformer",
     {35.70, 53.94, 52.27, 38.56, 76.34, FAIL},
     LRA "; not our linformer: a rank of 16 whatever the config says"},
    {"Reformer",
     {37.27, 56.10, 53.40, 38.07, 68.50, FAIL},
     LRA "; not our lsh: scores times sqrt d, keys not normalised"},
    {"Sinkhorn", {33.67, 61.20, 53.83, 41.23, 67.45, FAIL}, LRA "; prints 51.39 as its average"},
    {"Synthesizer", {36.99, 61.68, 54.67, 41.61, 69.45, FAIL}, LRA},
    {"BigBird", {36.05, 64.02, 59.29, 40.83, 74.87, FAIL}, LRA},
    {"Linear Transformer", {16.13, 65.90, 53.09, 42.34, 75.30, FAIL}, LRA},
    {"Performer",
     {18.01, 65.40, 53.82, 42.77, 77.05, FAIL},
     LRA "; not our performer: ReLU features without a projection"},
    {"Luna-16", {37.43, 65.74, 79.38, 46.39, 78.36, NONE}, LUNA},
    {"Luna-128", {38.01, 65.74, 79.55, 47.47, 78.89, NONE}, LUNA},
    {"Luna-256", {37.98, 65.78, 79.56, 47.86, 78.55, FAIL}, MEGA},
    {"Luna-256 (S4's figures)",
     {37.25, 64.57, 79.29, 47.38, 77.72, FAIL},
     "as Gu et al. 2022, arXiv:2111.00396, quote it"},
    {"Nyströmformer", {37.15, 65.52, 79.56, 41.58, 70.94, NONE}, NYS},
    {"Transformer (Nyströmformer's)", {37.10, 65.02, 79.35, 38.20, 74.16, NONE}, NYS},
    {"Reformer (Nyströmformer's)", {19.05, 64.88, 78.64, 43.29, 69.36, NONE}, NYS},
    {"Linformer (Nyströmformer's)", {37.25, 55.91, 79.37, 37.84, 67.60, NONE}, NYS},
    {"Performer (Nyströmformer's)", {18.80, 63.81, 78.62, 37.07, 69.87, NONE}, NYS},
    {"Transformer (MEGA's)", {37.11, 65.21, 79.14, 42.94, 71.83, FAIL}, MEGA},
    {"S4-v1", {58.35, 76.02, 87.09, 87.26, 86.05, 88.10}, MEGA},
    {"S4-v2", {59.60, 86.82, 90.90, 88.65, 94.20, 96.35}, MEGA},
    {"S5",
     {62.15, 89.31, 91.40, 88.00, 95.33, 98.58},
     "Smith et al. 2023, arXiv:2208.04933; recalled, not checked"},
    {"MEGA", {63.14, 90.43, 91.25, 90.44, 96.01, 97.98}, MEGA},
    {"MEGA-chunk", {58.76, 90.19, 90.97, 85.80, 94.41, 93.81}, MEGA},
    {"Transformer, rotary", {47.90, 79.08, 82.31, 75.04, 76.64, 84.72}, AMOS},
    {"Transformer, rotary, masked", {61.49, 91.02, 91.57, 86.04, 94.16, 92.98}, AMOS},
    {"FNet", {35.33, 65.11, 59.61, 38.67, 77.80, FAIL}, QUOTED("2105.03824")},
    {"H-Transformer-1D",
     {49.53, 78.69, 63.99, 46.05, 68.78, FAIL},
     "Zhu and Soricut 2021, arXiv:2107.11906; recalled, not checked"},
    {"Hrrformer", {39.98, 65.38, 76.15, 50.45, 72.17, FAIL}, QUOTED("2305.19534")},
    {"TLB", {37.05, 81.88, 76.91, 57.51, 79.06, FAIL}, LISTED},
    {"IGLOO", {39.23, 82, 75.5, 47.0, 67.5, NONE}, LISTED},
    {"CAST Top-K", {39.90, 65.45, 78.01, 52.37, 70.18, FAIL}, CAST},
    {"CAST SA Top-K", {40.70, 65.13, 74.64, 52.78, 62.22, FAIL}, CAST},
    {0},
};

/* ---- averages ---- */

double papers_mean_of_five(const double accuracy[PAPER_TASKS]) {
    double sum = 0;
    for (int i = 0; i < PAPER_TASKS - 1; i++) {
        if (!(accuracy[i] >= 0)) return NAN;
        sum += accuracy[i];
    }
    return sum / (PAPER_TASKS - 1);
}

double papers_mean_of_six(const double accuracy[PAPER_TASKS]) {
    const double chance = 50, x = accuracy[PAPER_TASKS - 1];
    return (papers_mean_of_five(accuracy) * (PAPER_TASKS - 1) + (x >= 0 ? x : chance)) /
           PAPER_TASKS;
}

static void put_means(Cell *c, const double accuracy[PAPER_TASKS]) {
    c[0].mean = papers_mean_of_five(accuracy);
    c[1].mean = papers_mean_of_six(accuracy);
}

static void add_paper(Table *t, const Paper *p) {
    Cell *c = table_row(t);
    cell_text(c++, p->model);
    for (int i = 0; i < PAPER_TASKS; i++, c++) {
        if (p->accuracy[i] >= 0) c->mean = p->accuracy[i];
        if (p->accuracy[i] == FAIL) cell_text(c, "FAIL");
    }
    put_means(c, p->accuracy);
    cell_text(&c[2], p->source);
}

/* ---- ours ---- */

/* "cast topk": what our rows are of. What a recipe adds to the benchmark's or to the papers' model
 * stands apart, so that it hides no result that is theirs. To be freed. */
static char *model_name(const Group *g, unsigned marks) {
    const char *rule = group_value(g, "model.attention.mechanism");
    return text_format("%s%s%s%s", g->type ? g->type : "?", rule ? " " : "", rule ? rule : "",
                       marks & MARK_EXTRAS ? ", with extras" : "");
}

/* Of a task, the config that is best in validation among those that were tested, on the benchmark's
 * data and of several seeds if there is one; before there is one, all of them. */
typedef struct OurTask {
    const Groups *all;
    Group *config;     /* (configs), shallow copies: which there are */
    Spread best, last; /* tests of these weights */
    double validation; /* mean of the best */
    double examples;   /* of a test */
    unsigned marks, last_marks;
    int runs, finished;
    int configs, chosen;
    bool tested;
} OurTask;

typedef struct Ours {
    char *name;
    bool extras;
    OurTask task[PAPER_TASKS];
} Ours;

static Ours *ours_of(Ours **rows, int *n, const Group *g, unsigned marks) {
    char *name = model_name(g, marks);
    for (int i = 0; i < *n; i++)
        if (!strcmp((*rows)[i].name, name)) {
            mem_free(name);
            return &(*rows)[i];
        }
    *rows = mem_grow(*rows, (size_t)*n + 1, sizeof **rows);
    Ours *o = &(*rows)[(*n)++];
    *o = (Ours){.name = name, .extras = (marks & MARK_EXTRAS) != 0};
    for (int i = 0; i < PAPER_TASKS; i++) o->task[i].best = o->task[i].last = spread_of(NULL, 0);
    return o;
}

static void free_ours(Ours *o) {
    for (int i = 0; i < PAPER_TASKS; i++) mem_free(o->task[i].config);
    mem_free(o->name);
}

/* Of several groups the one best in validation counts: the test is no place to choose, nor are runs
 * that it chose. One seed may be lucky: it is not held against means of several. */
static bool is_better(const OurTask *a, const OurTask *b) {
    const int own = (a->marks & MARK_NOT_ITS) != 0, others = (b->marks & MARK_NOT_ITS) != 0;
    const bool several = a->finished > 1, others_several = b->finished > 1;
    if (!b->tested) return true;
    if (own != others) return own < others;
    if (several != others_several) return several;
    return a->validation > b->validation;
}

static void note_config(OurTask *o, const Groups *all, const Group *g) {
    o->all = all;
    o->config = mem_grow(o->config, (size_t)o->configs + 1, sizeof *o->config);
    o->config[o->configs++] = *g;
}

static void add_group(Ours **rows, int *n, const Groups *all, const Group *g) {
    int task = 0;
    Result r;
    while (task < PAPER_TASKS && strcmp(paper_tasks[task], g->task) != 0) task++;
    if (task == PAPER_TASKS) return;
    group_result(&r, g, true);
    const unsigned marks = marks_of(g, &r);
    OurTask *o = &ours_of(rows, n, g, marks)->task[task];
    note_config(o, all, g);
    if (r.finished == 0) {
        if (!o->tested) o->runs += r.runs;
        return;
    }
    const double validation = r.validation.n ? r.validation.mean : 0;
    const OurTask found = {.all = all,
                           .config = o->config,
                           .best = r.best,
                           .last = r.last,
                           .validation = validation,
                           .examples = r.test_examples,
                           .marks = marks,
                           .last_marks = marks_of_last(g, marks),
                           .runs = r.runs,
                           .finished = r.finished,
                           .configs = o->configs,
                           .chosen = o->configs - 1,
                           .tested = true};
    if (is_better(&found, o)) *o = found;
}

/* "finished: ListOps 2 of 2, Image 1 of 3"; to be freed. */
static char *count_finished(const Ours *o) {
    char *text;
    size_t size;
    const char *separator = "finished: ";
    FILE *f = text_stream(&text, &size);
    for (int i = 0; i < PAPER_TASKS; i++) {
        const OurTask *k = &o->task[i];
        if (!k->runs) continue;
        fprintf(f, "%s%s %d of %d", separator, titles[i], k->finished, k->runs);
        separator = ", ";
    }
    fclose(f);
    return text;
}

/* "ours: cast topk: ListOps clusters 8, of 4 configs": by the keys that they differ in. Of tasks
 * with one config there is nothing to say. */
static void note_chosen(Table *t, const Ours *o) {
    char *text;
    size_t size;
    const char *separator = "";
    FILE *f = text_stream(&text, &size);
    fprintf(f, "ours: %s: ", o->name);
    for (int i = 0; i < PAPER_TASKS; i++) {
        const OurTask *k = &o->task[i];
        if (!k->tested || k->configs < 2) continue;
        Groups those = *k->all;
        those.group = k->config, those.n = k->configs, those.tasks = false;
        char *label = group_label(&those, &k->config[k->chosen], NULL);
        fprintf(f, "%s%s %s, of %d configs", separator, titles[i], label, k->configs);
        separator = "; ";
        mem_free(label);
    }
    fclose(f);
    if (*separator)
        table_note(t, text);
    else
        mem_free(text);
}

/* Takes over `name` and `source`. */
static void add_ours(Table *t, const Ours *o, bool last, char *name, char *source) {
    double mean[PAPER_TASKS];
    bool left_out = false; /* of the last task, Path-X, in the end */
    Cell *c = table_row(t);
    cell_text(c++, name);
    for (int i = 0; i < PAPER_TASKS; i++, c++) {
        const OurTask *k = &o->task[i];
        const Spread *test = last ? &k->last : &k->best;
        /* of several configs the test set may have chosen the one */
        const unsigned marks = last && k->configs == 1 ? k->last_marks : k->marks;
        c->mean = mean[i] = test->mean;
        c->sd = test->sd;
        marks_letters(c->mark, marks);
        c->apart = left_out = (marks & MARK_LEFT_OUT) != 0;
        /* what the papers print as a failure */
        if (i == PAPER_TASKS - 1 && test->mean <= chance_most(50, k->examples)) mean[i] = FAIL;
        if (left_out) mean[i] = NONE;
        if (i == PAPER_TASKS - 1 && !k->runs) cell_text(c, "not run");
    }
    put_means(c, mean);
    if (left_out) c[1].mean = NAN; /* a Path-X that is not the benchmark's has not failed */
    cell_text(&c[2], source);
    mem_free(name);
    mem_free(source);
}

/* Where a run is finished there are last weights that were tested. */
static void add_both(Table *t, const Ours *o) {
    bool tested = false;
    for (int i = 0; i < PAPER_TASKS; i++) tested |= o->task[i].tested;
    add_ours(t, o, false, text_format("ours: %s", o->name), count_finished(o));
    if (tested)
        add_ours(t, o, true, text_format("ours: %s, last", o->name),
                 mem_strdup("the same runs, their last weights"));
}

static void add_notes(Table *t, bool ours, bool chosen, unsigned marks) {
    table_note(t, mem_strdup("Test accuracy, %. FAIL: not better than chance, or too large to run. "
                             "mean of 5: without Path-X, as Long Range Arena has it; mean of 6: a "
                             "Path-X that failed or is missing counts as 50. Both are computed "
                             "here, from the row; of a figure that is left out there is none."));
    if (ours)
        table_note(t, mem_strdup("ours: of the weights best in validation and of the last ones, of "
                                 "finished runs; ± is the sample standard deviation over seeds. A "
                                 "Path-X within two standard errors of chance has failed."));
    if (marks) table_note(t, marks_explain(marks));
    if (chosen)
        table_note(t, mem_strdup("Where a row of ours has several configs of a task, of those with "
                                 "several finished runs, or if none has more than one, of those "
                                 "with one, the one best in validation is shown and counted; "
                                 "without --papers there is a row for each."));
}

static void add_mean_column(Table *t, const char *title, const char *key, int spare) {
    Column *c = table_column(t, title, key, COLUMN_NUMBER, 2);
    c->best = BEST_MOST;
    c->spare = spare;
}

void papers_table(Table *t, const Groups *g) {
    Ours *rows = NULL;
    int n = 0;
    bool chosen = false;
    unsigned marks = 0;
    *t = (Table){0};
    table_column(t, "model", "model", COLUMN_TEXT, 0);
    for (int i = 0; i < PAPER_TASKS; i++)
        table_column(t, titles[i], paper_tasks[i], COLUMN_MARKED, 2)->best = BEST_MOST;
    add_mean_column(t, "mean of 5", "mean_of_5", 3);
    add_mean_column(t, "mean of 6", "mean_of_6", 2);
    table_column(t, "source", "source", COLUMN_TEXT, 0)->spare = 1;
    for (int i = 0; papers[i].model; i++) add_paper(t, &papers[i]);
    for (int i = 0; i < g->n; i++) add_group(&rows, &n, g, &g->group[i]);
    for (int extras = 0; extras < 2; extras++)
        for (int i = 0; i < n; i++)
            if (rows[i].extras == extras) add_both(t, &rows[i]);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < PAPER_TASKS; j++) {
            chosen |= rows[i].task[j].configs > 1;
            marks |= rows[i].task[j].marks;
        }
    }
    add_notes(t, n > 0, chosen, marks);
    for (int i = 0; i < n; i++) {
        note_chosen(t, &rows[i]);
        free_ours(&rows[i]);
    }
    mem_free(rows);
}
