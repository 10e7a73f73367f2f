/* What was meant by a word that is misspelt. */
#ifndef CORE_NEAREST_H
#define CORE_NEAREST_H

enum { NEAREST_MOST = 64 }; /* bytes of a word; longer ones are near to none */

/* The entry of `words` (NULL-terminated) nearest to `word` by edit distance, or NULL if none is
 * near. A transposition counts as one edit, upper and lower case as equal. */
const char *nearest_word(const char *word, const char *const *words);

#endif
