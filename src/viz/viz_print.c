#include "viz/viz_print.h"

#include "io/text.h"
#include "viz/palette.h"

enum { LINE = 80, ENTRY = 10, BLACK = 16, WHITE = 231, NONE = 240 };

typedef struct Printer {
    FILE *f;
    const Viz *v;
    const VizDoc *d;
    const Clusters *c;
    bool colour;
} Printer;

/* The cluster that a token is shown in, -1 for none. */
static int shown(const Clusters *c, int n) {
    return clusters_of_token(c, n) ? c->holders[c->start[n]] : -1;
}

static int ground(const Clusters *c, int n) {
    const int cluster = shown(c, n);
    return cluster < 0 ? NONE : palette_xterm(cluster);
}

static char symbol(const Clusters *c, int n) {
    const int cluster = shown(c, n);
    return cluster < 0 ? '.' : palette_symbol(cluster);
}

static void set_ground(const Printer *p, int cluster, bool several) {
    const int ink = palette_takes_black(palette_colour(cluster)) ? BLACK : WHITE;
    fprintf(p->f, "\033[%s48;5;%d;38;5;%dm", several ? "4;" : "", palette_xterm(cluster), ink);
}

static void print_size(const Printer *p, int cluster) {
    if (p->colour) set_ground(p, cluster, false);
    const int n = p->colour      ? fprintf(p->f, " %d ", cluster)
                  : cluster < 10 ? fprintf(p->f, "%d", cluster)
                                 : fprintf(p->f, "%c=%d", palette_symbol(cluster), cluster);
    fprintf(p->f, "%s%-*d", p->colour ? "\033[0m " : ":", ENTRY - 2 - n, p->c->size[cluster]);
}

/* Each cluster with its colour or mark, and how many tokens it holds. */
static void print_legend(const Printer *p, int part) {
    char name[CLUSTER_NAME];
    const int C = p->c->C, most = C < PALETTE ? C : PALETTE;
    fputc('\n', p->f);
    if (p->v->docs > 1) fprintf(p->f, "document %c, ", p->d == &p->v->doc[0] ? 'a' : 'b');
    fprintf(p->f, "%s: %d %s, of so many tokens\n",
            clusters_name(name, &p->v->traces, &p->v->part[part]), C,
            p->c->affinity ? "clusters" : "groups");
    for (int i = 0; i < most; i++) {
        print_size(p, i);
        fputs((i + 1) % (LINE / ENTRY) == 0 || i + 1 == most ? "\n" : " ", p->f);
    }
    if (C > most) fprintf(p->f, "and %d more, in the same colours again\n", C - most);
}

/* ---- pictures ---- */

static void print_pixels(const Printer *p) {
    const Clusters *c = p->c;
    const int w = p->d->width, rows = (p->d->length + w - 1) / w, cls = p->d->cls;
    for (int y = 0; y < rows; y += p->colour ? 2 : 1) {
        for (int x = 0; x < w && cls + y * w + x < c->N; x++) {
            const int n = cls + y * w + x;
            if (!p->colour)
                fputc(symbol(c, n), p->f);
            else if (n + w < c->N)
                fprintf(p->f, "\033[38;5;%d;48;5;%dm\xe2\x96\x80", ground(c, n), ground(c, n + w));
            else
                fprintf(p->f, "\033[0;38;5;%dm\xe2\x96\x80", ground(c, n));
        }
        fputs(p->colour ? "\033[0m\n" : "\n", p->f);
    }
}

/* ---- texts ---- */

/* The end of the line that begins with token n. */
static int line_end(const Printer *p, int n) {
    char text[VIZ_TEXT];
    for (int used = 0, start = n; n < p->c->N;) {
        const int next = n + viz_token(p->v, p->d, n, text);
        used += text_width(text) + viz_spaced(p->v);
        if (used > LINE && n > start) break;
        n = next;
    }
    return n;
}

static void print_line(const Printer *p, int n, int end) {
    char text[VIZ_TEXT];
    while (n < end) {
        const int cluster = shown(p->c, n);
        if (p->colour && cluster >= 0) set_ground(p, cluster, clusters_of_token(p->c, n) > 1);
        n += viz_token(p->v, p->d, n, text);
        fputs(text, p->f);
        if (p->colour) fputs("\033[0m", p->f);
        if (viz_spaced(p->v)) fputc(' ', p->f);
    }
    fputc('\n', p->f);
}

/* The clusters' marks below their tokens. */
static void print_symbols(const Printer *p, int n, int end) {
    char text[VIZ_TEXT];
    while (n < end) {
        const char s = symbol(p->c, n);
        n += viz_token(p->v, p->d, n, text);
        fputc(s, p->f);
        for (int i = text_width(text) + viz_spaced(p->v); i > 1; i--) fputc(' ', p->f);
    }
    fputc('\n', p->f);
}

static void print_text(const Printer *p) {
    for (int n = 0, end; n < p->c->N; n = end) {
        end = line_end(p, n);
        print_line(p, n, end);
        if (!p->colour) print_symbols(p, n, end);
    }
}

/* What marks, or colours, say of texts and of pictures. */
static void explain(FILE *f, const Viz *v, bool colour) {
    static const char *const what[2][2] = {
        {"Below each token is the mark of its", "A token's background is the colour of its"},
        {"A pixel is the mark of its", "A pixel has the colour of its"}};
    static const char *const end[2][2] = {{"; '.': in none", ", and it is underlined"},
                                          {"; '.': in none", "; grey: in none"}};
    const bool picture = v->doc[0].width > 0;
    if (v->traces.groups)
        fprintf(f, "%s group.\n", what[picture][colour]);
    else
        fprintf(f, "%s cluster; if it is in several, of the one with the highest affinity%s.\n",
                what[picture][colour], end[picture][colour]);
}

void viz_print(FILE *f, const Viz *v, bool colour) {
    fprintf(f, "%s\n", v->title);
    if (v->doc[0].width > VIZ_WIDEST) return;
    explain(f, v, colour);
    for (int i = 0; i < v->docs; i++)
        for (int j = 0; j < v->parts; j++) {
            const Printer p = {f, v, &v->doc[i], &v->doc[i].part[j], colour};
            print_legend(&p, j);
            (p.d->width ? print_pixels : print_text)(&p);
        }
}
