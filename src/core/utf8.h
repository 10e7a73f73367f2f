/* Characters of UTF-8 (RFC 3629). */
#ifndef CORE_UTF8_H
#define CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the sequence at s, of which n bytes can be read: 1 to 4, or 0 if it is none. */
int utf8_length(const char *s, size_t n);

/* Whether the sequence at s is a control character, which may drive a terminal: U+0000 to U+001F,
 * U+007F to U+009F. */
bool utf8_is_control(const char *s);

#endif
