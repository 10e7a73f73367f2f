#include "viz/viz_html.h"

#include <string.h>

#include "io/text.h"
#include "viz/palette.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<style>\n"
    "body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 "
    "1em;\n"
    "       color: #202020; background: #fff; color-scheme: light dark }\n"
    ".t { font: 14px/2 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }\n"
    ".t i { font-style: normal; padding: 1px 0 6px; border-radius: 2px }\n"
    ".t i.off { background: none !important; color: #b0b0b0 }\n"
    ".l button { font: inherit; font-size: 13px; border: 0; border-radius: 3px; margin: 2px; "
    "padding: 1px 8px;\n"
    "            cursor: pointer }\n"
    ".l button.on { outline: 3px solid }\n"
    "p { max-width: 60em }\n"
    "@media (max-width: 40em) { body { margin: 0 auto } }\n"
    "@media (prefers-color-scheme: dark) { body { color: #e4e7eb; background: #14171b }\n"
    "  .t i.off { color: #6a727c } }\n"
    "</style>\n";

static const char script[] =
    "<script>\n"
    "for (const b of document.querySelectorAll('.l button')) b.onclick = () => {\n"
    "  const s = b.closest('section'), on = !b.classList.contains('on');\n"
    "  for (const o of s.querySelectorAll('button')) o.classList.toggle('on', on && o === b);\n"
    "  for (const i of s.querySelectorAll('.t i'))\n"
    "    i.classList.toggle('off', on && !i.dataset.c.split(' ').includes(b.dataset.c));\n"
    "};\n"
    "</script>\n";

static void put_colour(FILE *f, Rgb c) { fprintf(f, "#%02x%02x%02x", c.r, c.g, c.b); }

/* The first cluster as the ground, the others as bars below. */
static void put_style(FILE *f, const int *clusters, int count) {
    const Rgb first = palette_colour(clusters[0]);
    fputs("background:", f);
    if (count > 1) {
        fputs("linear-gradient(90deg", f);
        for (int i = 1; i < count; i++) {
            fputc(',', f);
            put_colour(f, palette_colour(clusters[i]));
            fprintf(f, " %d%% %d%%", 100 * (i - 1) / (count - 1), 100 * i / (count - 1));
        }
        fputs(") bottom/100% 4px no-repeat ", f);
    }
    put_colour(f, first);
    fprintf(f, ";color:#%s", palette_takes_black(first) ? "000" : "fff");
}

static const char *word(const Clusters *c) { return c->affinity ? "cluster" : "group"; }

static bool same_clusters(const Clusters *c, int a, int b) {
    const int count = clusters_of_token(c, a);
    return count == clusters_of_token(c, b) &&
           !memcmp(c->holders + c->start[a], c->holders + c->start[b],
                   (size_t)count * sizeof *c->holders);
}

/* Opens the element of a run of tokens: all from n to last are in the same clusters. */
static void open_run(FILE *f, const Clusters *c, int n, int last) {
    const int *clusters = c->holders + c->start[n], count = clusters_of_token(c, n);
    fputs("<i data-c=\"", f);
    for (int i = 0; i < count; i++) fprintf(f, "%s%d", i ? " " : "", clusters[i]);
    fprintf(f, "\" title=\"token%s %d", last > n ? "s" : "", n);
    if (last > n) fprintf(f, " to %d", last);
    fprintf(f, count ? ": %s" : ": in no %s", word(c));
    for (int i = 0; i < count; i++) {
        fprintf(f, "%s %d", i ? "," : count > 1 ? "s" : "", clusters[i]);
        if (last == n && c->affinity)
            fprintf(f, " (%.3g)",
                    (double)c->affinity[(size_t)n * (size_t)c->C + (size_t)clusters[i]]);
    }
    fputc('"', f);
    if (count) {
        fputs(" style=\"", f);
        put_style(f, clusters, count);
        fputc('"', f);
    }
    fputc('>', f);
}

/* A character of several bytes goes by its first. */
static void put_tokens(FILE *f, const Viz *v, const VizDoc *d, const Clusters *c) {
    char text[VIZ_TEXT];
    fputs("<div class=\"t\">", f);
    for (int n = 0; n < c->N;) {
        int end = n, last = n;
        while (end < c->N && same_clusters(c, n, end)) {
            last = end;
            end += viz_token(v, d, end, text);
        }
        open_run(f, c, n, last);
        while (n < end) {
            n += viz_token(v, d, n, text);
            text_html(f, text);
            if (viz_spaced(v) && n < end) fputc(' ', f);
        }
        fputs("</i>", f);
        if (viz_spaced(v)) fputc(' ', f);
    }
    fputs("</div>\n", f);
}

static void put_legend(FILE *f, const Clusters *c) {
    int none, several;
    clusters_count(c, 0, &none, &several);
    fputs("<p class=\"l\">", f);
    for (int i = 0; i < c->C; i++) {
        fprintf(f, "<button data-c=\"%d\" style=\"", i);
        put_style(f, &i, 1);
        fprintf(f, "\">%d: %d</button>", i, c->size[i]);
    }
    fprintf(f, "</p>\n<p>%d tokens; %d in no %s", c->N, none, word(c));
    if (c->affinity) fprintf(f, ", %d in several", several);
    fputs(".</p>\n", f);
}

static void put_section(FILE *f, const Viz *v, int doc, int part) {
    char name[CLUSTER_NAME];
    const VizDoc *d = &v->doc[doc];
    clusters_name(name, &v->traces, &v->part[part]);
    fputs("<section>\n<h2>", f);
    if (v->docs > 1)
        fprintf(f, "Document %c, %s", "ab"[doc], name);
    else
        fprintf(f, "L%s", name + 1);
    fputs("</h2>\n", f);
    put_legend(f, &d->part[part]);
    put_tokens(f, v, d, &d->part[part]);
    fputs("</section>\n", f);
}

/* Where another attention was swapped in, what of it has learned nothing. */
static void put_drawn(FILE *f, const Trained *t) {
    char drawn[512];
    if (!trained_drawn(t, drawn, sizeof drawn)[0]) return;
    fputs("<br>Drawn, and ", f);
    text_html(f, drawn);
    fputc('.', f);
}

static void put_page(FILE *f, const Viz *v) {
    const bool groups = v->traces.groups;
    fputs(head, f);
    fprintf(f, "<title>%s: ", groups ? "Groups" : "Clusters");
    text_html(f, v->title);
    fprintf(f, "</title>\n<h1>%s</h1>\n<p>", groups ? "Groups" : "Clusters");
    text_html(f, v->title);
    fputs(".<br>", f);
    text_html(f, v->t->from.path);
    fprintf(f, ", update %lld.", (long long)v->t->from.update);
    put_drawn(f, v->t);
    fputs("</p>\n", f);
    fputs(groups
              ? "<p>A token's background is the colour of its group. "
              : "<p>A token's background is the colour of its cluster; if it is in several, of the "
                "one with the highest affinity, and the bars below it are the others. Without a "
                "background it is in none. ",
          f);
    fprintf(f,
            "Press a %s (its number and how many tokens it holds) to see it alone; again for "
            "all.</p>\n",
            groups ? "group" : "cluster");
    for (int i = 0; i < v->docs; i++)
        for (int j = 0; j < v->parts; j++) put_section(f, v, i, j);
    fputs(script, f);
    fputs("</html>\n", f);
}

bool viz_html(const Viz *v, const char *path, Err *err) {
    AtomicFile a;
    if (!atomic_open(&a, path, KIND_HTML, err)) return false;
    put_page(a.f, v);
    return atomic_commit(&a, err);
}
