/* Colours of clusters and of heat maps.
 *
 * Clusters have entries of xterm's colour cube, so that terminals and pictures agree. The first
 * seven are the nearest to those of Okabe and Ito; each further one is as far as can be (in OKLab)
 * from all before it, to people with protan, deutan or tritan vision too. Near black, near white
 * and greys are left out, which stand for other things. */
#ifndef VIZ_PALETTE_H
#define VIZ_PALETTE_H

#include <stdbool.h>

typedef struct Rgb {
    unsigned char r, g, b;
} Rgb;

enum { PALETTE = 64 };

/* Of a cluster; from PALETTE on colours come again. */
Rgb palette_colour(int cluster);
/* The same as an index of xterm's 256 colours. */
int palette_xterm(int cluster);
/* Letters, where there is no colour. */
char palette_symbol(int cluster);

/* Whether black is easier to read on it than white. */
bool palette_takes_black(Rgb ground);

/* Dark blue at 0 through green to yellow at 1 (viridis); below and above as at the ends. */
Rgb palette_heat(double x);

/* a + (b - a) x. */
Rgb palette_mix(Rgb a, Rgb b, double x);

#endif
