/* Grey of colour, as tf.image.rgb_to_grayscale has it on bytes, to the bit: x = v * (1/255), y =
 * .2989 R + .5870 G + .1140 B from left to right, trunc(y * 255.5), each step rounded to float.
 * (Division by 255, or a fused multiply-add, gives another intensity for some dozen colours.) */
#ifndef DATA_GREY_H
#define DATA_GREY_H

enum { GREYS = 256 };

/* Each colour's share of y. That they are looked up keeps the compiler from fusing products into
 * the sums. */
typedef struct GreyTable {
    float r[256], g[256], b[256];
} GreyTable;

void grey_table(GreyTable *t);
unsigned char grey_of(const GreyTable *t, unsigned char r, unsigned char g, unsigned char b);

#endif
