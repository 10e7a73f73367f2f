#include "data/bytes.h"

#include <stdio.h>

#include "core/token.h"
#include "core/utf8.h"

static void escape(char buf[BYTES_CHARACTER], int id) {
    switch (id - 1) {
    case -1: snprintf(buf, BYTES_CHARACTER, "<pad>"); break;
    case TOKEN_MASKED - 1: snprintf(buf, BYTES_CHARACTER, "▒"); break;
    case '\n': snprintf(buf, BYTES_CHARACTER, "\\n"); break;
    case '\r': snprintf(buf, BYTES_CHARACTER, "\\r"); break;
    case '\t': snprintf(buf, BYTES_CHARACTER, "\\t"); break;
    case '\\': snprintf(buf, BYTES_CHARACTER, "\\\\"); break;
    default: snprintf(buf, BYTES_CHARACTER, "\\x%02x", (unsigned)(id - 1) & 255); break;
    }
}

int bytes_character(char buf[BYTES_CHARACTER], const int *ids, int n) {
    const int most = n < 4 ? n : 4;
    for (int i = 0; i < most; i++) buf[i] = (char)(ids[i] - 1);
    const int length = utf8_length(buf, (size_t)most);
    if (length == 0 || utf8_is_control(buf) || buf[0] == '\\') {
        escape(buf, ids[0]);
        return 1;
    }
    buf[length] = '\0';
    return length;
}

void bytes_print(const int *ids, int n) {
    char buf[BYTES_CHARACTER];
    for (int i = 0; i < n;) {
        i += bytes_character(buf, ids + i, n - i);
        fputs(buf, stdout);
    }
    putchar('\n');
}
