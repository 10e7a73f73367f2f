#include "report/legend.h"

#include <math.h>

#include "core/log.h"
#include "io/text.h"

/* Pixels; the margin is what stands left of the plot, where the legend begins. */
enum { MOST = 17, ROW = 22, SAMPLE = 80, LETTER = 8, MARGIN = 90 };

void legend_add(Legend *l, const char *name) {
    const int letters = text_width(name);
    l->names++;
    if (letters > l->longest) l->longest = letters;
}

static LegendFit set(const Legend *l, double width, double scale) {
    const double column = SAMPLE + scale * LETTER * l->longest;
    const int columns = (int)fmax(1, (width - MARGIN) / column);
    return (LegendFit){columns, scale, (l->names + columns - 1) / columns * ROW * scale};
}

LegendFit legend_fit(const Legend *l, double width, double height) {
    const double least = 0.5, room = width - MARGIN - SAMPLE;
    double scale = fmin(1, room / (LETTER * l->longest + 1));
    if (l->names == 0 || l->names > MOST) return (LegendFit){0};
    LegendFit fit = set(l, width, scale);
    while (scale > least && fit.height > height / 2)
        fit = set(l, width, scale = fmax(least, scale - 0.05));
    return scale < least || fit.height > height / 2 ? (LegendFit){0} : fit;
}

/* gnuplot takes the margin for room: it is told how many columns there are. */
void legend_print(FILE *f, const Legend *l, const LegendFit *fit) {
    if (fit->columns == 0) {
        fputs("unset key\n", f);
        if (l->names > 0)
            log_warn("the plot has no room for its legend: fewer lines%s would have one",
                     l->names > MOST ? "" : ", shorter names or a larger plot");
        return;
    }
    fprintf(f, "set key above left Left reverse samplen 3.5 maxcols %d\n", fit->columns);
    if (fit->scale < 1)
        fprintf(f, "smaller = sprintf(',%%g', %.2f * letters)\nset key font smaller\n", fit->scale);
}
