/* cast_bench: the machine's limits, and what the training step of a config makes of them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "core/child.h"
#include "core/gemm.h"
#include "core/lanes.h"
#include "core/option.h"
#include "core/ranks.h"
#include "io/json.h"
#include "io/json_print.h"
#include "io/text.h"
#include "model/crew.h"
#include "train/approximate.h"
#include "train/bench.h"
#include "train/helper.h"
#include "train/override.h"
#include "train/stop.h"

typedef struct Options {
    const char *config, *mechanisms, *lengths;
    char *const *overrides;
    int noverrides, threads;
    double seconds;
    bool json, approximation, scaling, data;
} Options;

#define AT(field) offsetof(Options, field)
static const Option options[] = {
    {"mechanisms", OPTION_TEXT, AT(mechanisms), "A,B",
     "a row for each attention mechanism (that of CONFIG keeps CONFIG's keys, others have their "
     "defaults; a key=value of model.attention goes to each that has the key)"},
    {"lengths", OPTION_TEXT, AT(lengths), "N,M", "a row for each model.max_length"},
    {"approximation", OPTION_FLAG, AT(approximation), NULL,
     "instead of a step: how near the attention comes to exact attention on random queries, keys "
     "and values, N(0,1)"},
    {"scaling", OPTION_FLAG, AT(scaling), NULL,
     "a row for 1, 2, 4, ... threads, up to --threads: how much faster than one, and what it is "
     "lost to; under mpirun, for one rank and for all"},
    {"data", OPTION_FLAG, AT(data), NULL,
     "steps on the task's own training examples, as they come, instead of random tokens at full "
     "length"},
    {"seconds", OPTION_REAL, AT(seconds), "S", "time to measure for [3]"},
    {"threads", OPTION_INT, AT(threads), "N", "[OMP_NUM_THREADS, else the physical cores]", 1,
     OPTION_MOST_THREADS},
    {"json", OPTION_FLAG, AT(json), NULL,
     "one JSON object instead of text; of a table, one a line"},
    {0},
};

static const Program program = {
    "cast_bench",
    "the machine's limits, and the speed of a config",
    "usage: cast_bench [CONFIG] [key=value ...]\n\n"
    "Of CONFIG, the training step on random tokens at full length: samples/s, GFLOP/s and share of "
    "the FMA peak, a breakdown by part of the model, peak memory. Then, or alone without "
    "CONFIG, the machine's limits; with --json only where there is no CONFIG, with --approximation "
    "not at all. FLOPs are those of the products in the method's definition, 2 for a multiply-add, "
    "three times the forward pass, however they are computed here; recomputation, exponentials and "
    "everything elementwise count as nothing.\n",
    options,
    "Exit status of a table: 0 where any row could be measured; what cannot be is told in its "
    "row.\n",
    .ranks = true,
};

static bool parse(Options *o, int argc, char **argv, Err *err) {
    CommandLine line;
    if (!option_parse(&line, o, &program, argc, argv, err)) return false;
    static char config[FILE_PATH_MAX];
    if (line.nwords) o->config = option_path(config, sizeof config, line.words[0]);
    o->overrides = line.words + 1;
    o->noverrides = line.nwords - 1;
    if (o->scaling && (o->mechanisms || o->lengths || o->approximation))
        return err_set(err, EX_USAGE, "--scaling is of one mechanism, one length and its step");
    if (o->data && (o->lengths || o->approximation))
        return err_set(err, EX_USAGE, "--data has lengths of its own, and a step");
    if (!o->config && (o->mechanisms || o->lengths || o->approximation || o->scaling || o->data ||
                       o->seconds > 0))
        return err_set(err, EX_USAGE, "no CONFIG given; 'cast_bench --help' says more");
    if (o->approximation && o->seconds > 0)
        return err_set(err, EX_USAGE, "--approximation is of a number of documents: no --seconds");
    if (!(o->seconds > 0)) o->seconds = 3;
    return true;
}

/* ---- one config ---- */

static void print_parts(const BenchResult *r) {
    printf("\n  %-25s %9s %7s %9s %7s\n", "part", "ms/sample", "time", "GFLOP/s", "of peak");
    for (int i = 0; i < r->nparts; i++) {
        const BenchPart *p = &r->parts[i];
        printf("  %-25s %9.3f %6.1f%% ", p->name, 1e3 * p->seconds,
               100 * p->seconds / r->sample_seconds);
        if (p->flops > 0 && p->seconds > 0)
            printf("%9.1f %6.1f%%\n", r->threads * p->flops / p->seconds * 1e-9,
                   100 * r->threads * p->flops / p->seconds * 1e-9 / r->peak_gflops);
        else
            printf("%9s %7s\n", "-", "-");
    }
}

static void print_result(const BenchResult *r) {
    printf("%s: %s attention, %d tokens, batch %d, %d thread%s", r->task, r->mechanism, r->tokens,
           r->batch, r->threads, r->threads == 1 ? "" : "s");
    printf(r->ranks > 1 ? ", %d ranks\n" : "\n", r->ranks);
    printf("  %.2f samples/s  %.0f tokens/s  %.3f updates/s\n", r->samples_per_s, r->tokens_per_s,
           r->updates_per_s);
    printf("  %.1f GFLOP/s of %.1f: %.1f %% of the FMA peak (%.3f GFLOP a sample)\n", r->gflops,
           r->peak_gflops, 100 * r->gflops / r->peak_gflops, r->sample_flops * 1e-9);
    if (r->folded_share > 0)
        printf("  of these FLOPs %.1f %% are the embedding's projection, which is done once an "
               "update instead\n",
               100 * r->folded_share);
    if (r->avoided_share > 0)
        printf(
            "  and %.1f %% are never computed: the mechanism needs less than its definition says\n",
            100 * r->avoided_share);
    printf("  peak memory %.1f MB\n", r->peak_rss_mb);
    if (r->ranks > 1) printf("  ranks exchange %.2f MB an update\n", 1e-6 * r->moved_bytes);
    if (r->nparts) print_parts(r);
}

static void print_line(const cJSON *o) { json_print_line(stdout, o); }

static bool bench_step(const Options *o, const Config *c, Err *err) {
    BenchResult r;
    if (!bench_run(&r, c, o->seconds, o->data, err)) return false;
    cJSON *row = o->json ? bench_json(&r, c) : NULL;
    if (row)
        print_line(row);
    else
        print_result(&r);
    cJSON_Delete(row);
    return true;
}

/* As many documents as give figures to three digits. */
enum { DOCUMENTS = 4 };

static bool bench_approximation(const Options *o, const Config *c, Err *err) {
    Approximation a;
    if (!approximate_random(&a, c, DOCUMENTS, err)) return false;
    if (o->json) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "mechanism", c->model.mech->name);
        approximation_json(row, &a);
        cJSON_AddItemToObject(row, "config", cJSON_Duplicate(c->resolved, true));
        print_line(row);
        cJSON_Delete(row);
    } else {
        printf("%s attention, of random numbers: ", c->model.mech->name);
        approximation_print(stdout, &a);
    }
    approximation_free(&a);
    return true;
}

static bool bench_one(const Options *o, Err *err) {
    Config c;
    const bool ok = config_load(&c, o->config, o->overrides, o->noverrides, err) &&
                    (o->approximation ? bench_approximation : bench_step)(o, &c, err);
    config_free(&c);
    return ok;
}

static void print_machine(int threads, bool json) {
    cJSON *o = bench_machine(threads);
    if (json) {
        print_line(o);
    } else {
        printf("%d thread%s, %s\n", threads, threads == 1 ? "" : "s", json_string(o, "kernels"));
        printf("  FMA peak         %8.1f GFLOP/s (%s)\n", json_number(o, "peak_gflops"), REAL_NAME);
        printf("  matrix products  %8.1f GFLOP/s (64 x 128 x 128)\n",
               json_number(o, "gemm_gflops"));
        printf("  memory           %8.1f GB/s\n", json_number(o, "memory_gb_per_s"));
    }
    cJSON_Delete(o);
}

/* ---- a table: each row in a process of its own, so that its memory is its own ---- */

/* Runs this program with --json and reads its one line. */
static cJSON *bench_child(char *const *argv, Err *err) {
    static char line[1 << 20];
    size_t n = 0;
    if (!child_read(argv, line, sizeof line - 1, &n, err)) return NULL;
    return json_parse(line, n, sizeof line, JSON_MAX_DEPTH, "cast_bench --json", err);
}

static void print_approximation_row(const cJSON *r) {
    printf("  %-12s %8.0f %8.2f %% %8.2f %%", json_string(r, "mechanism"), json_number(r, "tokens"),
           100 * json_number(r, "flops_share"), 100 * json_number(r, "error"));
    if (cJSON_IsNumber(json_at(r, "kept")))
        printf(" %8.2f %%\n", 100 * json_number(r, "kept"));
    else
        printf(" %10s\n", "-");
}

static void print_row(const cJSON *r) {
    printf("  %-10s %8.0f %12.3f %12.0f %9.1f %8.1f %% %10.1f\n", json_string(r, "mechanism"),
           json_number(r, "tokens"), json_number(r, "updates_per_s"),
           json_number(r, "tokens_per_s"), json_number(r, "gflops"),
           100 * json_number(r, "peak_share"), json_number(r, "peak_rss_mb"));
}

/* The comma-separated words of a list, one at a time; NULL at the end. */
static const char *next_word(const char **list, char *word, size_t size) {
    size_t n = strcspn(*list, ",");
    if (!n) return NULL;
    snprintf(word, size, "%.*s", (int)n, *list);
    *list += n + ((*list)[n] == ',');
    return word;
}

static bool check_mechanism(const char *name, Err *err) {
    enum { MOST = 64 };
    const char *names[MOST + 1] = {NULL};
    if (attn_find(name)) return true;
    for (int i = 0; attn_table[i] && i < MOST; i++) names[i] = attn_table[i]->name;
    schema_not_among("on the command line", "--mechanisms", name, names, err);
    err->code = EX_USAGE;
    return false;
}

static bool check_length(const char *text, Err *err) {
    int length;
    return option_int("lengths", text, 1, INT_MAX, &length, err);
}

/* Before anything is measured: what is misspelt would be told after minutes. */
static bool check_list(const char *option, const char *list, bool (*check)(const char *, Err *),
                       Err *err) {
    char word[64];
    bool more = list != NULL;
    while (more) {
        const size_t n = strcspn(list, ",");
        snprintf(word, sizeof word, "%.*s", (int)n, list);
        if (!n) return err_set(err, EX_USAGE, "%s: one of the values is empty", option);
        if (!check(word, err)) return false;
        more = list[n] == ',';
        list += n + more;
    }
    return true;
}

/* Each key of model.attention on the command line must be one of a mechanism in the list. */
static bool check_keys(const Options *o, Err *err) {
    char name[64];
    int n = 0;
    ConfigKey *known = mem_alloc(1, sizeof *known);
    cJSON *given = cJSON_CreateObject();
    for (const char *list = o->mechanisms; next_word(&list, name, sizeof name);) {
        const AttnMech *m = attn_find(name);
        for (const ConfigKey *k = m ? m->keys : NULL; k && k->name; k++) {
            if (schema_find(known, k->name)) continue;
            known = mem_grow(known, (size_t)n + 2, sizeof *known);
            known[n++] = *k;
            known[n] = (ConfigKey){0};
        }
    }
    bool ok = true;
    for (int i = 0; ok && i < o->noverrides; i++) ok = json_override(given, o->overrides[i], err);
    ok = ok && schema_check(known, json_at(given, "model.attention"), "on the command line",
                            "model.attention", "type", err);
    cJSON_Delete(given);
    mem_free(known);
    return ok;
}

/* Runs this program for a row. `mechanism` and `length` are NULL where they are CONFIG's. */
static cJSON *bench_config(const Options *o, const char *mechanism, const char *length, int team,
                           Err *err) {
    char threads[32], seconds[32], attention[128], tokens[96], approximation[] = "--approximation",
                                                               data[] = "--data";
    char **argv = mem_alloc((size_t)o->noverrides + 10, sizeof *argv);
    int n = 0;
    snprintf(threads, sizeof threads, "--threads=%d", team);
    snprintf(seconds, sizeof seconds, "--seconds=%g", o->seconds);
    argv[n++] = (char[]){"cast_bench"};
    argv[n++] = threads;
    argv[n++] = o->approximation ? approximation : seconds;
    argv[n++] = (char[]){"--json"};
    if (o->data) argv[n++] = data;
    argv[n++] = (char *)(uintptr_t)o->config;
    for (int i = 0; i < o->noverrides; i++)
        if (!mechanism || override_concerns(o->overrides[i], mechanism))
            argv[n++] = o->overrides[i];
    if (mechanism) { /* where CONFIG names another, its keys go with it */
        snprintf(attention, sizeof attention, "model.attention.type=%s", mechanism);
        argv[n++] = attention;
    }
    if (length) {
        snprintf(tokens, sizeof tokens, "model.max_length=%s", length);
        argv[n++] = tokens;
    }
    argv[n] = NULL;
    cJSON *r = bench_child(argv, err);
    mem_free(argv);
    return r;
}

static bool bench_row(const Options *o, const char *mechanism, const char *length, Err *err) {
    cJSON *r = bench_config(o, mechanism, length, lanes_threads(), err);
    if (!r)
        text_print(o->json ? stderr : stdout, "  %-10s %8s  %s\n", mechanism ? mechanism : "",
                   length ? length : "", err->text);
    else
        (o->json ? print_line : o->approximation ? print_approximation_row : print_row)(r);
    fflush(stdout);
    const bool ok = r != NULL;
    cJSON_Delete(r);
    return ok;
}

/* What cannot be run at one length is told in its row; false: none could be. */
static bool bench_table(const Options *o, Err *err) {
    char mechanism[64], length[64];
    bool any = false;
    if (!check_list("--lengths", o->lengths, check_length, err) ||
        !check_list("--mechanisms", o->mechanisms, check_mechanism, err) ||
        (o->mechanisms && !check_keys(o, err)))
        return false;
    if (!o->json && o->approximation)
        printf("  %-12s %8s %10s %10s %10s\n", "attention", "tokens", "of FLOPs", "error", "kept");
    else if (!o->json)
        printf("  %-10s %8s %12s %12s %9s %10s %10s\n", "attention", "tokens", "updates/s",
               "tokens/s", "GFLOP/s", "of peak", "memory MB");
    const char *lengths = o->lengths ? o->lengths : "-";
    while (next_word(&lengths, length, sizeof length)) {
        const char *mechanisms = o->mechanisms ? o->mechanisms : "-";
        while (next_word(&mechanisms, mechanism, sizeof mechanism))
            any |= bench_row(o, o->mechanisms ? mechanism : NULL, o->lengths ? length : NULL, err);
    }
    return any;
}

/* ---- more and more threads, or ranks ---- */

/* Without the sign of a zero. */
static double percent(const cJSON *r, const char *key) {
    const double x = 100 * json_number(r, key);
    return x > -0.05 && x < 0 ? 0 : x;
}

static void print_scaling_head(void) {
    printf("  %5s %7s %12s %8s %12s %14s %12s %10s %12s\n", "ranks", "threads", "samples/s",
           "faster", "efficiency", "lost:waiting", "serial part", "exchange", "slower work");
}

static void print_scaling_row(const cJSON *r) {
    printf("  %5.0f %7.0f %12.2f %8.2f %10.1f %% %12.1f %% %10.1f %% %8.1f %% %10.1f %%\n",
           json_number(r, "ranks"), json_number(r, "threads"), json_number(r, "samples_per_s"),
           json_number(r, "faster"), percent(r, "efficiency"), percent(r, "lost_waiting"),
           percent(r, "lost_serial"), percent(r, "lost_exchange"), percent(r, "lost_slower"));
}

static void tell_scaling_row(const Options *o, cJSON *r, const cJSON *alone) {
    bench_losses(r, alone);
    (o->json ? print_line : print_scaling_row)(r);
    fflush(stdout);
}

static bool bench_threads(const Options *o, Err *err) {
    const int most = lanes_threads();
    cJSON *alone = NULL;
    bool ok = true;
    for (int n = 1; ok && n <= most; n = n < most && 2 * n > most ? most : 2 * n) {
        cJSON *r = bench_config(o, NULL, NULL, n, err);
        ok = r != NULL;
        if (ok) tell_scaling_row(o, r, alone ? alone : r);
        if (alone)
            cJSON_Delete(r);
        else
            alone = r;
    }
    cJSON_Delete(alone);
    return ok;
}

static cJSON *bench_here(const Options *o, const Config *c, Err *err) {
    BenchResult r;
    return bench_run(&r, c, o->seconds, o->data, err) ? bench_json(&r, c) : NULL;
}

static void print_exchange(const cJSON *all) {
    crew_echo(1), crew_echo(8000000); /* the first finds nothing ready */
    printf("  a step moves %.2f MB; alone, %.2f MB take %.2f ms; 1 byte is at rank 1 and back in "
           "%.0f us, 8 MB in %.2f ms\n",
           1e-6 * json_number(all, "moved_bytes"), 1e-6 * json_number(all, "exchange_bytes"),
           1e3 * json_number(all, "exchange_seconds"), 1e6 * crew_echo(1),
           1e3 * crew_echo(8000000));
}

/* In this process, since mpirun has started it: others would be none of its ranks. */
static bool bench_ranks(const Options *o, Err *err) {
    Config c;
    cJSON *alone = NULL, *all = NULL;
    bool ok = config_load(&c, o->config, o->overrides, o->noverrides, err);
    ranks_alone(true);
    ok = ok && (alone = bench_here(o, &c, err));
    ranks_alone(false);
    if (ok) tell_scaling_row(o, alone, alone);
    ok = ok && (all = bench_here(o, &c, err));
    if (ok) tell_scaling_row(o, all, alone);
    if (ok && !o->json) print_exchange(all);
    cJSON_Delete(alone);
    cJSON_Delete(all);
    config_free(&c);
    return ok;
}

static bool bench_scaling(const Options *o, Err *err) {
    if (!o->json) print_scaling_head();
    return ranks_count() > 1 ? bench_ranks(o, err) : bench_threads(o, err);
}

static bool bench(const Options *o, Err *err) {
    const int threads = lanes_open(o->threads);
    const bool table = o->mechanisms || o->lengths;
    bool (*const what)(const Options *, Err *) = o->scaling ? bench_scaling
                                                 : table    ? bench_table
                                                            : bench_one;
    if (!table) ranks_warn(threads);
    if (!lanes_start(err)) return false;
    gemm_open();
    if (o->config && !what(o, err)) return false;
    if (!o->config || !(o->json || o->approximation))
        print_machine(threads, o->json); /* last: its buffers would count as the config's memory */
    return true;
}

/* A rank that helps: silent, but for warnings of another host than those before it. */
static int help(int argc, char **argv) {
    Options o = {0};
    Err err = {0};
    if (!freopen("/dev/null", "w", stdout)) return EX_OSERR;
    if (!parse(&o, argc, argv, &err)) return helper_refuse(program.name, &err);
    return helper_main(program.name, o.threads);
}

int main(int argc, char **argv) {
    crew_command(argc, argv);
    if (ranks_will_be() > 0) return help(argc, argv);
    Err err = {0};
    Options o = {0};
    stop_at_start();
    signal(SIGCHLD, SIG_DFL); /* rows are processes, whose ends are waited for */
    const bool ok = parse(&o, argc, argv, &err) && ranks_open(lanes_processors(), &err) &&
                    bench(&o, &err) && err_check_stdout(&err);
    const int status = ok ? EXIT_SUCCESS : err_report(program.name, &err);
    helper_end();
    ranks_close();
    return status;
}
