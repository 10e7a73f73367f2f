#include "core/nearest.h"

#include <ctype.h>
#include <string.h>

/* Edits that turn a into b: insertions, deletions, replacements, swaps of neighbours. */
static int distance(const char *a, const char *b) {
    int rows[3][NEAREST_MOST + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    int na = (int)strlen(a), nb = (int)strlen(b);
    for (int j = 0; j <= nb; j++) row[j] = j;
    for (int i = 1; i <= na; i++) {
        int *spare = before;
        before = above, above = row, row = spare;
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            int best = above[j - 1] + (x != y);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

const char *nearest_word(const char *word, const char *const *words) {
    size_t n = strlen(word);
    const char *nearest = NULL;
    /* About a third of the letters wrong at most: beyond, words that merely share a length come up.
     */
    int least = (int)((n + 1) / 3) + 1;
    for (; n <= NEAREST_MOST && *words; words++) {
        if (strlen(*words) > NEAREST_MOST) continue;
        int edits = distance(word, *words);
        if (edits >= least) continue;
        least = edits;
        nearest = *words;
    }
    return nearest;
}
