/* Texts as bytes: id is byte + 1, and 0 is padding, as in the Long Range Arena. */
#ifndef DATA_BYTES_H
#define DATA_BYTES_H

enum { BYTES_VOCAB = 257 };

/* What the first of n ids, or those of the UTF-8 sequence that begins with it, stand for: writes it
 * and returns how many ids it is of. */
enum { BYTES_CHARACTER = 8 };
int bytes_character(char buf[BYTES_CHARACTER], const int *ids, int n);

/* Prints ids as the text they stand for, and a newline. What is valid UTF-8 stays as it is; control
 * characters and stray bytes become \n, \t, \x1b, ..., a backslash two, a masked one U+2592. */
void bytes_print(const int *ids, int n);

#endif
