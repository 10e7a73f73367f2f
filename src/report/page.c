#include "report/page.h"

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/utf8.h"
#include "core/version.h"
#include "io/json.h"
#include "io/json_print.h"
#include "io/png.h"
#include "io/text.h"
#include "report/curve_plot.h"
#include "report/formats.h"

/* Black of gnuplot's pictures is the page's foreground, so that they can be read on any ground. */
static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#59636e;--line:#d5dae0;--soft:"
    "#f4f6f8}\n"
    "@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e7eb;--dim:#9aa4b0;--line:"
    "#353b43;--soft:#1d2126}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1rem;max-width:88rem;background:var(--bg);color:var(--fg);"
    "font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;line-height:1.25;overflow-wrap:anywhere}\n"
    "h2{font-size:1.2rem;margin-top:2rem;padding-bottom:.2rem;border-bottom:1px solid "
    "var(--line)}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.3rem .5rem;text-align:left;border-bottom:1px solid var(--line);white-space:"
    "nowrap}\n"
    "th,th.t{vertical-align:bottom;font-weight:600;white-space:normal}\n"
    ".n{text-align:right}\n"
    "@media (min-width:70rem){.t{white-space:normal}}\n"
    "tbody tr:hover{background:var(--soft)}\n"
    "@media (min-width:45rem){.narrow{display:none}}\n"
    "@media (max-width:44.99rem){.s{display:none}body{padding:.6rem}th,td{padding:.3rem .35rem}"
    "td:first-child{white-space:normal;overflow-wrap:anywhere}}\n"
    ".note,footer{color:var(--dim);font-size:.875rem;max-width:50rem}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));"
    "gap:1rem}\n"
    "figure{margin:0;min-width:0}\n"
    "figcaption{font-weight:600;font-size:.875rem;overflow-wrap:anywhere}\n"
    ".plot{overflow-x:auto}\n"
    ".plot svg{display:block;width:100%;min-width:27rem;height:auto}\n"
    ".all{grid-column:1/-1}\n"
    "iframe{width:100%;height:32rem;border:1px solid var(--line)}\n"
    "img{display:block;max-width:100%;height:auto;background:#fff}\n"
    "details{margin:.5rem 0;border:1px solid var(--line);border-radius:.4rem;padding:.4rem .8rem}\n"
    "summary{cursor:pointer;overflow-wrap:anywhere}\n"
    "pre{overflow-x:auto;background:var(--soft);padding:.6rem;border-radius:.4rem;font-size:"
    ".8rem;line-height:1.4;tab-size:2}\n";

static void open_figure(FILE *f, const char *class, const char *caption) {
    fprintf(f, "<figure%s><figcaption>", class);
    text_html(f, caption);
    fputs("</figcaption>", f);
}

/* ---- curves ---- */

/* Takes over the plot and the caption. */
static bool embed_plot(FILE *f, Plot *p, char *caption, int number, Err *err) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "p%d-", number);
    char *svg = plot_svg(p, prefix, err);
    if (svg) {
        open_figure(f, "", caption);
        fprintf(f, "<div class=\"plot\">%s</div></figure>\n", svg);
    }
    const bool ok = svg != NULL;
    plot_free(p);
    mem_free(caption);
    mem_free(svg);
    return ok;
}

/* A part of the groups. */
static Groups part_of(const Groups *g, int from, int n) {
    Groups part = *g;
    part.group += from;
    part.n = n;
    part.tasks = false;
    return part;
}

static const char clusters_key[] = "model.attention.clusters";

static bool has_clusters(const Groups *g) {
    const char *first = NULL;
    for (int i = 0; i < g->n; i++) {
        const char *value = group_value(&g->group[i], clusters_key);
        if (value && first && strcmp(value, first) != 0) return true;
        if (!first) first = value;
    }
    return false;
}

/* What there is to draw of one task; false: gnuplot fails. */
static bool write_task_curves(FILE *f, const Page *p, const Groups *g, int *number, Err *err) {
    static const char *const over[] = {"updates", "time", "tokens"};
    static const int keys[] = {RUN_LOSS, RUN_ACCURACY};
    Plot plot;
    bool ok = true;
    for (int i = 0; ok && i < 2; i++) {
        const int key = curve_plot_key(g, keys[i]);
        if (!curve_plot(&plot, (PlotSize){0, 0}, g, key, p->axis, p->band, err)) return true;
        const char *name = key == RUN_BITS ? "bits a token" : key == RUN_LOSS ? "loss" : "accuracy";
        char *caption = text_format("%s: %s over %s", g->group[0].task, name, over[p->axis]);
        ok = embed_plot(f, &plot, caption, (*number)++, err);
    }
    if (!ok || !has_clusters(g) ||
        !curve_plot_over(&plot, (PlotSize){0, 0}, g, clusters_key, p->band, err))
        return ok;
    char *caption = text_format("%s: test accuracy over clusters", g->group[0].task);
    return embed_plot(f, &plot, caption, (*number)++, err);
}

static void write_curves(FILE *f, const Page *p) {
    const Groups *g = p->groups;
    Err err;
    bool ok = true;
    int number = 0;
    fputs("<h2>Curves</h2>\n<p class=\"note\">Lines: training, smoothed over 2 % on either side. "
          "Points: validation. Where a line is of several runs, it is their mean, and the band ",
          f);
    fprintf(f, "%s.</p>\n<div class=\"plots\">\n",
            p->band == CURVE_SD ? "the standard deviation" : "goes from least to most");
    for (int from = 0, to; ok && from < g->n; from = to) {
        for (to = from + 1; to < g->n && !strcmp(g->group[to].task, g->group[from].task);) to++;
        const Groups part = part_of(g, from, to - from);
        ok = write_task_curves(f, p, &part, &number, &err);
    }
    fputs("</div>\n", f);
    if (ok) return;
    const bool some = number > 1; /* the last one failed */
    log_warn("%s; the page has %s curves", err.text, some ? "not all" : "no");
    fprintf(f, "<p class=\"note\">%s curves: ", some ? "Not all" : "No");
    text_html(f, err.text);
    fputs("</p>\n", f);
}

/* ---- pictures ---- */

static void base64(FILE *f, const unsigned char *s, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const unsigned b = i + 1 < n ? s[i + 1] : 0, c = i + 2 < n ? s[i + 2] : 0;
        const unsigned v = (unsigned)s[i] << 16 | b << 8 | c;
        fputc(digits[v >> 18], f);
        fputc(digits[v >> 12 & 63], f);
        fputc(i + 1 < n ? digits[v >> 6 & 63] : '=', f);
        fputc(i + 2 < n ? digits[v & 63] : '=', f);
    }
}

static void write_png(FILE *f, const char *path, const FileMap *m) {
    open_figure(f, "", path);
    fputs("<img alt=\"", f);
    text_html(f, path);
    fputs("\" src=\"data:image/png;base64,", f);
    base64(f, m->data, m->size);
    fputs("\"></figure>\n", f);
}

/* A page of coloured tokens within this one, where neither can touch the other. */
static void write_frame(FILE *f, const char *path, const FileMap *m) {
    open_figure(f, " class=\"all\"", path);
    fputs("<iframe sandbox=\"allow-scripts\" srcdoc=\"", f);
    const char *s = (const char *)m->data;
    for (size_t i = 0, n; i < m->size; i += n) {
        n = (size_t)utf8_length(s + i, m->size - i);
        const bool space = n && strchr(" \t\n", s[i]) && s[i];
        if (s[i] == '&')
            fputs("&amp;", f);
        else if (s[i] == '"')
            fputs("&quot;", f);
        else if (n == 0 || (!space && utf8_is_control(s + i)))
            fputs("\xef\xbf\xbd", f);
        else
            fwrite(s + i, 1, n, f);
        n += n == 0;
    }
    fputs("\"></iframe></figure>\n", f);
}

static void write_picture(FILE *f, const char *path) {
    FileMap m;
    Err err;
    if (!file_map(&m, path, &err)) {
        log_warn("%s; left out", err.text);
        return;
    }
    if (text_ends(path, ".html"))
        write_frame(f, path, &m);
    else if (png_is_whole(m.data, m.size))
        write_png(f, path, &m);
    else
        log_warn("%s: is not a PNG picture, or not all of one; left out", path);
    file_unmap(&m);
}

/* What cast_viz left there; the page itself, as it was, may be among them. */
static void write_pictures_in(FILE *f, const char *dir, const char *page, bool *any) {
    static const char *const kinds[] = {".png", ".html"};
    for (int kind = 0; kind < 2 && file_is_dir(dir); kind++) {
        FileList names;
        Err err;
        if (!file_list(&names, dir, "viz", kinds[kind], &err))
            log_warn("%s; its pictures are left out", err.text);
        for (int i = 0; i < names.n; i++) {
            if (file_same(names.name[i], page)) continue;
            if (!*any) fputs("<h2>Pictures</h2>\n<div class=\"plots\">\n", f);
            *any = true;
            write_picture(f, names.name[i]);
        }
        file_list_free(&names);
    }
}

static void write_pictures(FILE *f, const Page *p, const char *page) {
    const Groups *g = p->groups;
    bool any = false;
    /* Those of sweeps; a run that was named is among the groups', or left out. */
    for (int i = 0; i < p->npaths; i++)
        if (!run_is_there(p->paths[i])) write_pictures_in(f, p->paths[i], page, &any);
    for (int i = 0; i < g->n; i++)
        for (int j = 0; j < g->group[i].n; j++)
            write_pictures_in(f, g->group[i].run[j]->dir, page, &any);
    if (any) fputs("</div>\n", f);
}

/* ---- runs ---- */

enum { DIR, SEED, UPDATES, BEST, TEST_BEST, TEST_LAST, VERSION, COMMIT, THREADS, CPU, STARTED };

static void add_run(Table *t, const Run *r) {
    Cell *c = table_row(t);
    const RunLine *best = run_best(r);
    const bool timed = run_number(r, "train.minutes", 0) > 0;
    const int64_t all = timed ? 0 : run_updates(r);
    int64_t made = run_made(r).step;
    if (r->tested[RUN_LAST] && r->test[RUN_LAST].step > made) made = r->test[RUN_LAST].step;
    cell_text(&c[DIR], r->dir);
    c[SEED].mean = run_number(r, "train.seed", NAN);
    c[UPDATES].mean = (double)made;
    c[UPDATES].sd = all ? (double)all : NAN;
    if (best) c[BEST].mean = 100 * best->value[RUN_ACCURACY];
    if (r->tested[RUN_BEST]) c[TEST_BEST].mean = 100 * r->test[RUN_BEST].value[RUN_ACCURACY];
    if (r->tested[RUN_LAST]) c[TEST_LAST].mean = 100 * r->test[RUN_LAST].value[RUN_ACCURACY];
    cell_text(&c[VERSION], json_string(r->env, "version"));
    cell_text(&c[COMMIT], json_string(r->env, "commit"));
    c[THREADS].mean = json_number(r->env, "threads");
    cell_text(&c[CPU], json_string(r->env, "cpu"));
    cell_text(&c[STARTED], json_string(r->env, "started"));
}

static void write_runs(FILE *f, const Group *g) {
    Table t = {0};
    table_column(&t, "run", "run", COLUMN_TEXT, 0);
    table_column(&t, "seed", "seed", COLUMN_NUMBER, 0);
    table_column(&t, "updates", "updates", COLUMN_SHARE, 0);
    table_column(&t, "best validation, %", "validation", COLUMN_NUMBER, 2);
    table_column(&t, "test of best, %", "test_best", COLUMN_NUMBER, 2);
    table_column(&t, "test of last, %", "test_last", COLUMN_NUMBER, 2);
    table_column(&t, "version", "version", COLUMN_TEXT, 0)->spare = 1;
    table_column(&t, "commit", "commit", COLUMN_TEXT, 0)->spare = 2;
    table_column(&t, "threads", "threads", COLUMN_NUMBER, 0)->spare = 3;
    table_column(&t, "processor", "cpu", COLUMN_TEXT, 0)->spare = 4;
    table_column(&t, "started", "started", COLUMN_TEXT, 0)->spare = 5;
    for (int i = 0; i < g->n; i++) add_run(&t, g->run[i]);
    table_write(&t, &(TableStyle){TABLE_HTML}, f);
    table_free(&t);
}

static void write_json(FILE *f, const char *what, const Run *r, const cJSON *o) {
    char *text = NULL;
    size_t size;
    FILE *printed = o ? text_stream(&text, &size) : NULL;
    if (o) json_print(printed, o), fclose(printed);
    fprintf(f, "<p class=\"note\">%s of ", what);
    text_html(f, r->dir);
    fputs("</p>\n<pre>", f);
    /* Line by line: text_html makes spaces of what is not text. */
    for (char *line = text; line && *line;) {
        const size_t n = strcspn(line, "\n");
        const bool more = line[n] == '\n';
        line[n] = '\0';
        text_html(f, line);
        fputc('\n', f);
        line += strlen(line) + more;
    }
    if (!text) fputs("none", f);
    fputs("</pre>\n", f);
    mem_free(text);
}

static void write_group(FILE *f, const Groups *all, const Group *g) {
    int finished = 0;
    char *label = group_label(all, g, NULL);
    for (int i = 0; i < g->n; i++) finished += run_done(g->run[i]);
    fprintf(f, "<details%s><summary>", all->n == 1 ? " open" : "");
    text_html(f, label);
    fprintf(f, ": %d of %d finished</summary>\n", finished, g->n);
    mem_free(label);
    write_runs(f, g);
    write_json(f, "Config", g->run[0], g->run[0]->config);
    write_json(f, "Environment", g->run[0], g->run[0]->env);
    fputs("</details>\n", f);
}

/* ---- the page ---- */

static void write_title(FILE *f, const Page *p) {
    for (int i = 0; i < p->npaths; i++) {
        if (i) fputs(", ", f);
        if (i == 4) {
            fprintf(f, "%d more", p->npaths - i);
            return;
        }
        text_html(f, p->paths[i]);
    }
}

static void write_page(FILE *f, const Page *p, const char *path) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          f);
    write_title(f, p);
    fprintf(f, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
    write_title(f, p);
    fputs("</h1>\n", f);
    for (int i = 0; i < PAGE_TABLES && p->heading[i]; i++) {
        fprintf(f, "<h2>%s</h2>\n", p->heading[i]);
        table_write(p->table[i], &(TableStyle){TABLE_HTML}, f);
    }
    write_curves(f, p);
    write_pictures(f, p, path);
    fputs("<h2>Runs</h2>\n", f);
    for (int i = 0; i < p->groups->n; i++) write_group(f, p->groups, &p->groups->group[i]);
    fputs("<footer><p>Written by cast_report " CAST_VERSION ".</p></footer>\n</body>\n</html>\n",
          f);
}

bool page_write(const Page *p, const char *path, Err *err) {
    AtomicFile a;
    if (!atomic_open(&a, path, KIND_HTML, err)) return false;
    write_page(a.f, p, path);
    return atomic_commit(&a, err);
}
