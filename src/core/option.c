#include "core/option.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool option_int(const char *option, const char *text, int least, int most, int *out, Err *err) {
    char *end;
    errno = 0;
    const long v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < least || v > most)
        return err_set(err, EX_USAGE, "--%s: expected a number from %d to %d, got '%.60s'", option,
                       least, most, text);
    *out = (int)v;
    return true;
}

bool option_seed(const char *option, const char *text, uint64_t *out, Err *err) {
    char *end;
    errno = 0;
    const unsigned long long v = strtoull(text, &end, 10);
    /* strtoull would take "-1" for the largest number. */
    if (errno || end == text || *end || text[strspn(text, "0123456789")])
        return err_set(err, EX_USAGE, "--%s: expected a number from 0 to %" PRIu64 ", got '%.60s'",
                       option, UINT64_MAX, text);
    *out = v;
    return true;
}

bool option_real(const char *option, const char *text, double *out, Err *err) {
    char *end;
    errno = 0;
    const double v = strtod(text, &end);
    if (errno || end == text || *end || !(v > 0 && v < 1e9))
        return err_set(err, EX_USAGE, "--%s: expected a positive number, got '%.60s'", option,
                       text);
    *out = v;
    return true;
}

bool option_word(const char *option, const char *text, const char *const *words, int count,
                 int *out, Err *err) {
    char list[256] = "";
    for (int i = 0; i < count; i++) {
        if (!strcmp(words[i], text)) {
            *out = i;
            return true;
        }
        const size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? (i + 1 < count ? ", " : " or ") : "",
                 words[i]);
    }
    return err_set(err, EX_USAGE, "--%s: expected %s, got '%.60s'", option, list, text);
}

/* Of a word of several letters behind one dash ("-plot") getopt takes the letters one by one, and
 * goes on to the next word after the last only. */
static const char *wrong_word(char *const *argv, int optind_now) {
    const char *last = argv[optind_now - 1], *now = argv[optind_now];
    const bool within = optopt && now && now[0] == '-' && now[1] && now[1] != '-' &&
                        !(last[0] == '-' && last[strlen(last) - 1] == optopt);
    return within ? now : last;
}

bool option_wrong(const char *program, int c, char *const *argv, int optind_now, Err *err) {
    return err_set(err, EX_USAGE, "%s: %s; '%s --help' says more",
                   c == ':' ? argv[optind_now - 1] : wrong_word(argv, optind_now),
                   c == ':' ? "a value is missing" : "no such option", program);
}

void option_print_word(FILE *f, const char *word) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, f);
        return;
    }
    fputc('\'', f);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", f);
        else
            fputc(*word, f);
    }
    fputc('\'', f);
}

char *option_command(int argc, char *const *argv) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    REQUIRE(f, "out of memory");
    for (int i = 0; i < argc; i++) {
        if (i) fputc(' ', f);
        option_print_word(f, argv[i]);
    }
    fclose(f);
    return text;
}
