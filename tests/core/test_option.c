#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/option.h"

typedef struct Values {
    bool flag;
    const char *text, *own;
    int number, word;
    uint64_t seed;
    double real;
} Values;

static const char *const words[] = {"red", "green", "blue", NULL};

static bool take_own(void *value, const char *name, const char *text, Err *err) {
    const char **own = value;
    if (*own) return err_set(err, EX_USAGE, "--%s is given twice", name);
    *own = text ? text : "nothing";
    return true;
}

#define AT(field) offsetof(Values, field)
static const Option options[] = {
    {"flag", OPTION_FLAG, AT(flag), NULL, "a flag"},
    {"text", OPTION_TEXT, AT(text), "T", "a text"},
    {"number", OPTION_INT, AT(number), "N", "a number", 2, 9},
    {"seed", OPTION_SEED, AT(seed), "S", "a seed"},
    {"real", OPTION_REAL, AT(real), "X", "a number"},
    {"word", OPTION_WORD, AT(word), "W", "a word", .words = words},
    {"own", OPTION_OWN, AT(own), NULL, "of its own", .take = take_own},
    {0},
};
static const Program program = {"prog", "a program", "usage: prog\n", options};

enum { MOST = 16 };

/* Parses "prog" and the words of `list`, NULL behind the last. */
static bool parse(CommandLine *line, Values *v, const char *const *list, Err *err) {
    static char *argv[MOST + 1];
    int argc = 0;
    argv[argc++] = (char[]){"prog"};
    for (; *list; list++) argv[argc++] = (char *)(uintptr_t)*list;
    argv[argc] = NULL;
    *v = (Values){0};
    optind = 0; /* as at the start of a program */
    return option_parse(line, v, &program, argc, argv, err);
}
#define PARSE(...) parse(&line, &v, (const char *const[]){__VA_ARGS__, NULL}, &err)

static void values_are_read(void **state) {
    (void)state;
    CommandLine line;
    Values v;
    Err err;
    assert_true(PARSE("--flag", "--text", "a b", "--number=9", "--seed", "18446744073709551615",
                      "--real", "1e-3", "--word", "blue", "--own"));
    assert_true(v.flag && v.number == 9 && v.seed == UINT64_MAX && v.word == 2);
    assert_true(v.real == 1e-3);
    assert_string_equal(v.text, "a b");
    assert_string_equal(v.own, "nothing");
    assert_int_equal(line.given, 0x7f);
    assert_int_equal(line.nwords, 0);
}

static void words_and_what_was_given(void **state) {
    (void)state;
    CommandLine line;
    Values v;
    Err err;
    assert_true(PARSE("one", "--text", "t", "two", "--num", "3", "--", "--flag"));
    assert_int_equal(line.nwords, 3);
    assert_string_equal(line.words[0], "one");
    assert_string_equal(line.words[1], "two");
    assert_string_equal(line.words[2], "--flag");
    assert_null(line.words[3]);
    assert_int_equal(line.given, 1 << 1 | 1 << 2);
    assert_true(!v.flag && v.number == 3);
}

#define REFUSED(text_, ...)                                                                        \
    do {                                                                                           \
        assert_false(PARSE(__VA_ARGS__));                                                          \
        assert_int_equal(err.code, EX_USAGE);                                                      \
        assert_string_equal(err.text, text_);                                                      \
    } while (0)

static void errors_name_the_option(void **state) {
    (void)state;
    CommandLine line;
    Values v;
    Err err;
    REFUSED("--number: expected a number from 2 to 9, got '1'", "--number", "1");
    REFUSED("--number: expected a number from 2 to 9, got '3x'", "--number=3x");
    REFUSED("--seed: expected a number from 0 to 18446744073709551615, got '-1'", "--seed", "-1");
    REFUSED("--real: expected a number above 0 and below 1e9, got '0'", "--real", "0");
    REFUSED("--word: expected red, green or blue, got 'grey'", "--word", "grey");
    REFUSED("--own is given twice", "--own", "--own");
    REFUSED("--text: a value is missing; 'prog --help' says more", "--text");
    REFUSED("--nope: no such option; 'prog --help' says more", "--nope");
    REFUSED("-flag: no such option; did you mean '--flag'? 'prog --help' says more", "-flag", "x");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(words_and_what_was_given),
        cmocka_unit_test(errors_name_the_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
