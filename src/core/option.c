#include "core/option.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/commit.h"
#include "core/log.h"
#include "core/manual.h"
#include "core/nearest.h"
#include "core/ranks.h"
#include "core/stack.h"
#include "core/utf8.h"
#include "core/version.h"

enum { MOST_OPTIONS = 64, COLUMNS = 100, OPT_HELP = 'h', OPT_VERSION = 256, OPT_FIRST };

/* ---- values ---- */

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
        return err_set(err, EX_USAGE, "--%s: expected a number above 0 and below 1e9, got '%.60s'",
                       option, text);
    *out = v;
    return true;
}

/* One of `words`: its place among them. */
static bool take_word(const char *option, const char *text, const char *const *words, int *out,
                      Err *err) {
    char list[256] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(words[i], text)) {
            *out = i;
            return true;
        }
        format_add(list, sizeof list, "%s%s", i ? (words[i + 1] ? ", " : " or ") : "", words[i]);
    }
    return err_set(err, EX_USAGE, "--%s: expected %s, got '%.60s'", option, list, text);
}

static bool take(void *out, const Option *o, const char *text, Err *err) {
    void *at = (char *)out + o->offset;
    switch (o->kind) {
    case OPTION_FLAG: *(bool *)at = true; return true;
    case OPTION_TEXT: *(const char **)at = text; return true;
    case OPTION_INT: return option_int(o->name, text, o->least, o->most, at, err);
    case OPTION_SEED: return option_seed(o->name, text, at, err);
    case OPTION_REAL: return option_real(o->name, text, at, err);
    case OPTION_WORD: return take_word(o->name, text, o->words, at, err);
    case OPTION_OWN: return o->take(at, o->name, text, err);
    case OPTION_SHOW: break;
    }
    return false;
}

bool option_given(const CommandLine *line, const Option *rows, const char *name) {
    int i = 0;
    while (rows[i].name && strcmp(rows[i].name, name) != 0) i++;
    REQUIRE(rows[i].name, "no option '%s'", name);
    return line->given >> i & 1;
}

/* ---- --help ---- */

/* Prints the lines of `text`, the first from column `at` on, broken at spaces before COLUMNS; what
 * is broken off starts at column `indent`. */
static void print_filled(FILE *f, const char *text, int at, int indent) {
    while (*text) {
        const int line = (int)strcspn(text, "\n");
        int n = line;
        if (at + line > COLUMNS)
            for (n = COLUMNS - at; n > 0 && text[n] != ' ';) n--;
        if (n == 0) n = line;
        fprintf(f, "%.*s\n", n, text);
        at = text[n] == ' ' ? indent : 0;
        text += n + (text[n] != '\0');
        fprintf(f, "%*s", at, "");
    }
}

static void print_option(FILE *f, const char *form, const char *help, int width) {
    print_filled(f, help, fprintf(f, "  %-*s  ", width, form), width + 4);
}

static void option_form(char *buf, size_t size, const Option *o) {
    snprintf(buf, size, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
}

static void print_help(FILE *f, const Program *p) {
    char form[64];
    int width = (int)strlen("-h, --help");
    for (const Option *o = p->options; o->name; o++) {
        option_form(form, sizeof form, o);
        if (o->help && (int)strlen(form) > width) width = (int)strlen(form);
    }
    print_filled(f, p->usage, 0, 0);
    fputc('\n', f);
    for (const Option *o = p->options; o->name; o++) {
        option_form(form, sizeof form, o);
        if (o->help) print_option(f, form, o->help, width);
    }
    print_option(f, "-h, --help", "this text", width);
    print_option(f, "--version", "the version", width);
    if (p->notes || p->more) fputc('\n', f);
    if (p->notes) print_filled(f, p->notes, 0, 0);
    if (p->more) p->more(f);
}

_Noreturn static void leave(const Program *p) {
    Err err;
    exit(err_check_stdout(&err) ? EXIT_SUCCESS : err_report(p->name, &err));
}

/* ---- the command line ---- */

static void list_options(struct option longs[MOST_OPTIONS + 3], const Option *options) {
    int n = 0;
    longs[n++] = (struct option){"help", no_argument, NULL, OPT_HELP};
    longs[n++] = (struct option){"version", no_argument, NULL, OPT_VERSION};
    for (const Option *o = options; o->name; o++) {
        REQUIRE(o - options < MOST_OPTIONS, "more than %d options", MOST_OPTIONS);
        longs[n++] = (struct option){o->name, o->value ? required_argument : no_argument, NULL,
                                     OPT_FIRST + (int)(o - options)};
    }
    longs[n] = (struct option){0};
}

/* Of a word of several letters behind one dash ("-plot") getopt takes the letters one by one, and
 * goes on to the next word after the last only. */
static const char *wrong_word(char *const *argv) {
    const char *last = argv[optind - 1], *now = argv[optind];
    const bool within = optopt && now && now[0] == '-' && now[1] && now[1] != '-' &&
                        !(last[0] == '-' && last[strlen(last) - 1] == optopt);
    return within ? now : last;
}

/* The option that was meant by "--thraeds=4"; NULL: none is near. */
static const char *meant(const struct option *longs, const char *word) {
    char name[NEAREST_MOST + 1];
    const char *names[MOST_OPTIONS + 3];
    int n = 0;
    word += strspn(word, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (; longs[n].name; n++) names[n] = longs[n].name;
    names[n] = NULL;
    return nearest_word(name, names);
}

/* For getopt_long's ':' (a value is missing) and '?' (no such option). */
static bool wrong(const char *program, int c, char *const *argv, const struct option *longs,
                  Err *err) {
    if (c == ':')
        return err_set(err, EX_USAGE, "%s: a value is missing; '%s --help' says more",
                       argv[optind - 1], program);
    if (optopt >= OPT_VERSION || (optopt == OPT_HELP && argv[optind - 1][1] == '-'))
        return err_set(err, EX_USAGE, "%s: takes no value; '%s --help' says more", argv[optind - 1],
                       program);
    const char *word = wrong_word(argv), *other = meant(longs, word);
    return err_set(err, EX_USAGE, "%s: no such option; %s%s%s'%s --help' says more", word,
                   other ? "did you mean '--" : "", other ? other : "", other ? "'? " : "",
                   program);
}

/* What --help prints, by the word behind it. */
static void help(const Program *p, const char *word) {
    if (word && p->keys && !strcmp(word, "keys"))
        p->keys(stdout);
    else if (word && !strcmp(word, "man"))
        manual_print(stdout, p);
    else
        print_help(stdout, p);
}

static void print_version(const Program *p) {
    printf("%s " CAST_VERSION "\n", p->name);
    if (*commit_here()) printf("commit %s\n", commit_here());
}

/* Which can be meant, by a script that gives each something else to do. */
static void warn_of_ranks(const Program *p) {
    if (!p->ranks && ranks_started() > 1 && ranks_will_be() == 0)
        log_warn("mpirun has started %d processes of %s, each of which does all of the work",
                 ranks_started(), p->name);
}

bool option_parse(CommandLine *line, void *out, const Program *p, int argc, char **argv, Err *err) {
    struct option longs[MOST_OPTIONS + 3];
    *line = (CommandLine){0};
    if (!stack_open(err)) return false;
    list_options(longs, p->options);
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", longs, NULL)) != -1;) {
        if (c == ':' || c == '?') return wrong(p->name, c, argv, longs, err);
        if (c == OPT_HELP) help(p, argv[optind]);
        if (c == OPT_VERSION) print_version(p);
        const Option *o = c >= OPT_FIRST ? &p->options[c - OPT_FIRST] : NULL;
        if (o && o->kind == OPTION_SHOW) o->show(stdout);
        if (!o || o->kind == OPTION_SHOW) leave(p);
        if (!take(out, o, optarg, err)) return false;
        line->given |= (uint64_t)1 << (c - OPT_FIRST);
    }
    line->words = argv + optind;
    line->nwords = argc - optind;
    warn_of_ranks(p);
    return !p->needs || line->nwords > 0 ||
           err_set(err, EX_USAGE, "no %s given; '%s --help' says more", p->needs, p->name);
}

/* ---- as a shell reads it ---- */

static bool is_text(const char *word) {
    for (size_t left = strlen(word), n; left > 0; word += n, left -= n) {
        n = (size_t)utf8_length(word, left);
        if (n == 0 || utf8_is_control(word)) return false;
    }
    return true;
}

/* What is no text would drive a terminal, or not be read back: octal numbers, as in $'a\033'. */
static void print_bytes(FILE *f, const char *word) {
    fputs("$'", f);
    for (; *word; word++) {
        if (*word == '\'' || *word == '\\')
            fprintf(f, "\\%c", *word);
        else if (*word >= ' ' && *word < 0x7f)
            fputc(*word, f);
        else
            fprintf(f, "\\%03o", (unsigned)(unsigned char)*word);
    }
    fputc('\'', f);
}

const char *option_path(char *buf, size_t size, const char *path) {
    if (*path != '-') return path;
    snprintf(buf, size, "./%s", path);
    return buf;
}

void option_print_word(FILE *f, const char *word) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, f);
        return;
    }
    if (!is_text(word)) {
        print_bytes(f, word);
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
    for (int i = 0; i < argc; i++) {
        if (i) fputc(' ', f);
        option_print_word(f, argv[i]);
    }
    fclose(f);
    return text;
}
