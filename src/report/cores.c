#include "report/cores.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "io/json.h"
#include "io/text.h"
#include "report/rows.h"

static const struct {
    const char *key, *column, *title; /* in a row; in CSV; for people */
    double scale;
    int digits, spare; /* as in Column */
} values[CORES_VALUES] = {
    {"hosts", "hosts", "hosts", 1, 0, 0},
    {"ranks", "ranks", "ranks", 1, 0, 0},
    {"threads", "threads", "threads", 1, 0, 0},
    {"samples_per_s", "samples_per_s", "samples/s", 1, SIGNIFICANT + 3, 0},
    {"faster", "faster", "faster by", 1, SIGNIFICANT + 3, 0},
    {"efficiency", "efficiency_percent", "efficiency, %", 100, 1, 0},
    {"lost_waiting", "lost_waiting_percent", "lost waiting", 100, 1, 4},
    {"lost_serial", "lost_serial_percent", "serial part", 100, 1, 1},
    {"lost_exchange", "lost_exchange_percent", "exchange", 100, 1, 3},
    {"lost_slower", "lost_slower_percent", "slower work", 100, 1, 2},
};

/* ---- reading ---- */

static bool same_line(const CoresRow *a, const CoresRow *b) {
    return !strcmp(a->line, b->line) && !strcmp(a->mechanism, b->mechanism);
}

/* Whether the last row was measured as those of its line before it. */
static bool is_alike(const Cores *s, const cJSON *o) {
    static const char *const keys[CORES_SETTINGS] = {"batch", "most_tokens", "base_threads"};
    CoresRow *last = &s->row[s->n - 1];
    for (int i = s->n - 2; i >= 0; i--)
        if (same_line(&s->row[i], last)) {
            memcpy(last->setting, s->row[i].setting, sizeof last->setting);
            break;
        }
    return rows_alike(last->setting, keys, CORES_SETTINGS, o);
}

static bool take_row(void *to, cJSON *o, const char **why) {
    Cores *s = to;
    const char *task = json_string(o, "task"), *mechanism = json_string(o, "mechanism");
    s->row = mem_grow(s->row, (size_t)s->n + 1, sizeof *s->row);
    CoresRow *r = &s->row[s->n++];
    *r = (CoresRow){.mechanism = mem_strdup(mechanism ? mechanism : "")};
    for (int i = 0; i < CORES_VALUES; i++) r->value[i] = json_number(o, values[i].key);
    r->line = text_format(r->value[CORES_HOSTS] > 0   ? "%s, predicted"
                          : r->value[CORES_RANKS] > 1 ? "%s, ranks"
                                                      : "%s",
                          task ? task : "");
    const bool whole = task && r->value[CORES_RANKS] > 0 && r->value[CORES_THREADS] > 0 &&
                       r->value[CORES_EFFICIENCY] > 0,
               ok = whole && is_alike(s, o);
    cJSON_Delete(o);
    *why = whole ? "has another batch, length or number of threads of its base than the rows of "
                   "its task before it: their efficiencies are not one line"
                 : "is no row of 'cast_bench CONFIG --scaling --json': it lacks a task, or "
                   "positive ranks, threads and efficiency";
    return ok;
}

/* Lines are named by their attentions too, where there are several. */
static void name_mechanisms(Cores *s) {
    bool several = false;
    for (int i = 1; i < s->n; i++) several |= strcmp(s->row[i].mechanism, s->row[0].mechanism) != 0;
    for (int i = 0; several && i < s->n; i++) {
        CoresRow *r = &s->row[i];
        if (!*r->mechanism) continue;
        char *line = text_format("%s, %s", r->line, r->mechanism);
        mem_free(r->line);
        r->line = line;
    }
}

bool cores_read(Cores *s, char *const *paths, int n, Err *err) {
    static const char expected[] =
        "cores a file was expected, as 'cast_bench CONFIG --scaling --json' prints it";
    *s = (Cores){0};
    const bool ok = rows_read(paths, n, expected, take_row, s, err);
    if (ok)
        name_mechanisms(s);
    else
        cores_free(s);
    return ok;
}

void cores_free(Cores *s) {
    for (int i = 0; i < s->n; i++) {
        mem_free(s->row[i].line);
        mem_free(s->row[i].mechanism);
    }
    mem_free(s->row);
    *s = (Cores){0};
}

/* ---- writing ---- */

/* Rows of before 0.2.0 do not tell how long ranks wait. */
static const char *note_of_ranks(const Cores *s) {
    bool ranks = false, told = true;
    for (int i = 0; i < s->n; i++) {
        const bool several = s->row[i].value[CORES_RANKS] > 1;
        ranks |= several;
        told &= !several || !isnan(s->row[i].value[CORES_WAITING]);
    }
    return !ranks ? ""
           : told ? "; ranks lose waiting what they wait for the slowest of them"
                  : "; of ranks \"slower work\" has the waiting too";
}

void cores_table(Table *t, const Cores *s) {
    bool has[CORES_VALUES] = {false};
    *t = (Table){0};
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < CORES_VALUES; k++) has[k] |= !isnan(s->row[i].value[k]);
    table_column(t, "task", "task", COLUMN_TEXT, 0);
    for (int k = 0; k < CORES_VALUES; k++)
        if (has[k])
            table_column(t, values[k].title, values[k].column, COLUMN_NUMBER, values[k].digits)
                ->spare = values[k].spare;
    for (int i = 0; i < s->n; i++) {
        Cell *c = table_row(t);
        cell_text(c++, s->row[i].line);
        for (int k = 0; k < CORES_VALUES; k++)
            if (has[k]) (c++)->mean = values[k].scale * s->row[i].value[k];
    }
    table_note(t, text_format("efficiency: of the time of all threads, what one rank, or the one "
                              "thread, of the first row would have taken for as many operations; "
                              "the other columns say what the rest is lost to, in per cent of it%s",
                              note_of_ranks(s)));
}

/* Whether row i is the first of its line, which is then the `line`th. */
static bool starts_line(const Cores *s, int i, int *line) {
    for (int j = 0; j < i; j++)
        if (!strcmp(s->row[j].line, s->row[i].line)) return false;
    ++*line;
    return true;
}

static void print_data(FILE *f, const Cores *s) {
    int line = -1;
    for (int i = 0; i < s->n; i++) {
        if (!starts_line(s, i, &line)) continue;
        fprintf(f, "$line%d << END\n", line);
        for (int j = i; j < s->n; j++) {
            const double *v = s->row[j].value;
            if (!strcmp(s->row[j].line, s->row[i].line))
                fprintf(f, "%.10g %.10g\n", v[CORES_RANKS] * v[CORES_THREADS],
                        100 * v[CORES_EFFICIENCY]);
        }
        fputs("END\n", f);
    }
}

void cores_plot(Plot *p, PlotSize size, const Cores *s) {
    Legend legend = {0};
    int names = -1, line = -1;
    double most = 100;
    for (int i = 0; i < s->n; i++) {
        most = fmax(most, 100 * s->row[i].value[CORES_EFFICIENCY]);
        if (starts_line(s, i, &names)) legend_add(&legend, s->row[i].line);
    }
    plot_panels(p, size, 1, &legend);
    print_data(p->f, s);
    fprintf(p->f,
            "set logscale x 2\nset xlabel 'cores'\nset ylabel 'efficiency, %%'\n"
            "set yrange [0:%g]\nplot ",
            1.05 * most);
    for (int i = 0; i < s->n; i++) {
        if (!starts_line(s, i, &line)) continue;
        fprintf(p->f, "%s$line%d using 1:2 with linespoints ps 0.8", line ? ", \\\n     " : "",
                line);
        plot_line_end(p->f, line, s->row[i].line);
    }
    fputc('\n', p->f);
    plot_panels_end(p, 1);
}
