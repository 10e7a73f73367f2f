#include "data/grey.h"

void grey_table(GreyTable *t) {
    for (int v = 0; v < 256; v++) {
        float x = (float)v * (1.0f / 255.0f);
        t->r[v] = x * 0.2989f;
        t->g[v] = x * 0.5870f;
        t->b[v] = x * 0.1140f;
    }
}

unsigned char grey_of(const GreyTable *t, unsigned char r, unsigned char g, unsigned char b) {
    float y = t->r[r] + t->g[g] + t->b[b];
    return (unsigned char)(y * 255.5f);
}
