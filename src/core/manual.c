#include "core/manual.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/version.h"

/* ---- troff ---- */

/* n bytes as they are: a backslash, a dash that is to be copied, and what begins a line with a dot
 * or a quote would mean something. */
static void put(FILE *f, const char *s, size_t n) {
    if (n > 0 && (*s == '.' || *s == '\'')) fputs("\\&", f);
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\')
            fputs("\\e", f);
        else if (s[i] == '-')
            fputs("\\-", f);
        else
            fputc(s[i], f);
        if (s[i] == '\n' && i + 1 < n && (s[i + 1] == '.' || s[i + 1] == '\'')) fputs("\\&", f);
    }
}

static void section(FILE *f, const char *name) { fprintf(f, ".SH %s\n", name); }

static void put_literal(FILE *f, const char *s, size_t n) {
    fputs(".nf\n", f);
    put(f, s, n);
    fputs("\n.fi\n", f);
}

/* Paragraphs, between blank lines. One with lines that begin or go on with columns of blanks stays
 * as it is. */
static void put_paragraphs(FILE *f, const char *s) {
    while (*(s += strspn(s, "\n"))) {
        const char *end = strstr(s, "\n\n");
        size_t n = end ? (size_t)(end - s) : strlen(s);
        while (n > 0 && s[n - 1] == '\n') n--;
        const char *columns = strstr(s, "  ");
        fputs(".PP\n", f);
        if (columns && columns < s + n) {
            put_literal(f, s, n);
        } else {
            put(f, s, n);
            fputc('\n', f);
        }
        s += n;
    }
}

/* ---- parts of --help ---- */

/* "usage: A\n       B\n\nTEXT": what stands behind the first blank line. */
static const char *put_synopsis(FILE *f, const char *usage) {
    static const char head[] = "usage: ";
    if (!strncmp(usage, head, sizeof head - 1)) usage += sizeof head - 1;
    const char *end = strstr(usage, "\n\n");
    const char *stop = end ? end : usage + strlen(usage);
    section(f, "SYNOPSIS");
    while (usage < stop) {
        const size_t n = strcspn(usage, "\n");
        put(f, usage, n < (size_t)(stop - usage) ? n : (size_t)(stop - usage));
        fputs("\n.br\n", f);
        usage += n + (usage[n] == '\n');
        usage += strspn(usage, " ");
    }
    return stop;
}

static void put_option(FILE *f, const char *name, const char *value, const char *help) {
    fputs(".TP\n\\fB\\-\\-", f);
    put(f, name, strlen(name));
    fputs("\\fR", f);
    if (value) fputs(" \\fI", f), put(f, value, strlen(value)), fputs("\\fR", f);
    fputc('\n', f);
    put(f, help, strlen(help));
    fputc('\n', f);
}

static void put_options(FILE *f, const Program *p) {
    section(f, "OPTIONS");
    for (const Option *o = p->options; o->name; o++)
        if (o->help) put_option(f, o->name, o->value, o->help);
    put_option(f, "help", NULL, "what this page is made from");
    put_option(f, "version", NULL, "the version");
}

/* What a function of the program prints; to be freed. */
static char *printed(void (*print)(FILE *)) {
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    print(to);
    fclose(to);
    if (size && text[size - 1] == '\n') text[size - 1] = '\0';
    return text;
}

/* "  KEY    HELP", a line each; other lines are headings. */
static void put_keys(FILE *f, const char *text) {
    while (*text) {
        const size_t line = strcspn(text, "\n"), start = strspn(text, " ");
        const size_t word = strcspn(text + start, " \n"), at = start + word;
        fputs(start ? ".TP\n\\fB" : ".PP\n", f);
        put(f, text + start, start ? word : line - start);
        if (start && at < line) {
            fputs("\\fR\n", f);
            put(f, text + at + strspn(text + at, " "), line - at - strspn(text + at, " "));
        }
        fputc('\n', f);
        text += line + strspn(text + line, "\n");
    }
}

/* ---- what is the same for all ---- */

static const struct {
    int status;
    const char *meaning;
} statuses[] = {
    {0, "done"},
    {EX_USAGE, "the command line is wrong"},
    {EX_DATAERR, "what a file holds is wrong, or damaged"},
    {EX_NOINPUT, "a file or directory is missing, or cannot be read"},
    {EX_UNAVAILABLE, "a program that this one calls is missing"},
    {EX_SOFTWARE, "a number is not finite, or a mistake of the program itself"},
    {EX_OSERR, "memory, threads or the stack are not to be had"},
    {EX_CANTCREAT, "a file cannot be made, or is another's"},
    {EX_IOERR, "a write failed"},
    {EX_TEMPFAIL, "interrupted; the same command goes on"},
    {EX_CONFIG, "a key of the config, or its value, is wrong"},
};

static void put_statuses(FILE *f) {
    section(f, "EXIT STATUS");
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        fprintf(f, ".TP\n%d\n%s\n", statuses[i].status, statuses[i].meaning);
}

static void put_others(FILE *f, const char *own) {
    static const char *const programs[] = {"cast_train", "cast_sweep",  "cast_eval",
                                           "cast_viz",   "cast_export", "cast_data",
                                           "cast_bench", "cast_report", "cast_step"};
    const char *between = "";
    section(f, "SEE ALSO");
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (!strcmp(programs[i], own)) continue;
        fprintf(f, "%s\\fB%s\\fR(1)", between, programs[i]);
        between = ",\n";
    }
    fputc('\n', f);
}

void manual_print(FILE *f, const Program *p) {
    fprintf(f, ".TH %s 1 \"\" \"cast " CAST_VERSION "\" \"CAST on Long Range Arena\"\n", p->name);
    section(f, "NAME");
    fprintf(f, "%s \\- %s\n", p->name, p->title);
    const char *text = put_synopsis(f, p->usage);
    section(f, "DESCRIPTION");
    put_paragraphs(f, text);
    put_options(f, p);
    if (p->notes || p->more) section(f, "NOTES");
    if (p->notes) put_paragraphs(f, p->notes);
    if (p->more) {
        char *more = printed(p->more);
        put_literal(f, more, strlen(more));
        free(more);
    }
    if (p->keys) {
        char *keys = printed(p->keys);
        section(f, "KEYS");
        put_keys(f, keys);
        free(keys);
    }
    put_statuses(f);
    put_others(f, p->name);
}
