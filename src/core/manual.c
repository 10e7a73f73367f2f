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

/* Whether it has columns, which blanks keep apart. */
static bool has_columns(const char *line, size_t n) {
    for (size_t i = 0; i + 1 < n; i++)
        if (line[i] == ' ' && line[i + 1] == ' ') return true;
    return false;
}

/* Lines; a blank one begins a paragraph, and one with columns stays as it is. */
static void put_lines(FILE *f, const char *s) {
    for (size_t n; *s; s += n + (s[n] == '\n')) {
        n = strcspn(s, "\n");
        if (n == 0) {
            fputs(".PP\n", f);
        } else if (has_columns(s, n)) {
            put_literal(f, s, n);
        } else {
            put(f, s, n);
            fputc('\n', f);
        }
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

/* "task", "train.lr", "model.attention.type=full:" */
static bool is_key(const char *word, size_t n) {
    return (n == 4 && !strncmp(word, "task", n)) || memchr(word, '.', n);
}

/* "  KEY    HELP", a line each; other lines are headings. */
static void put_keys(FILE *f, const char *text) {
    while (*text) {
        const size_t line = strcspn(text, "\n"), blanks = strspn(text, " ");
        const size_t word = strcspn(text + blanks, " \n"), at = blanks + word;
        const size_t start = is_key(text + blanks, word) ? blanks : 0;
        fputs(start ? ".TP\n\\fB" : ".PP\n", f);
        put(f, text + blanks, start ? word : line - blanks);
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
    {1, "of cast_sweep: some runs failed or cannot be run"},
    {EX_USAGE, "the command line is wrong"},
    {EX_DATAERR, "what a file holds is wrong, or damaged"},
    {EX_NOINPUT, "a file or directory is missing, or cannot be read"},
    {EX_UNAVAILABLE,
     "a program that this one calls (gnuplot) is missing or fails, a rank of a job is gone, or MPI "
     "cannot be used"},
    {EX_SOFTWARE,
     "a number is not finite, a process that this one began was ended by a signal, or a "
     "mistake of the program itself"},
    {EX_OSERR, "no memory, threads, stacks or processes as they are needed, or a processor that "
               "lacks what the program was built for"},
    {EX_CANTCREAT, "a file cannot be made, has no room, or would take the place of another's; or "
                   "another process is at work in the directory"},
    {EX_IOERR, "a write failed"},
    {EX_TEMPFAIL, "interrupted; what cast_train and cast_sweep had done is saved, and the same "
                  "command goes on"},
    {EX_CONFIG, "a config that is no JSON, or has a wrong key or value; other data than a run "
                "began with; or a rank of another version, build or command"},
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
    put_lines(f, text + strspn(text, "\n"));
    put_options(f, p);
    if (p->notes || p->more) section(f, "NOTES");
    if (p->notes) put_lines(f, p->notes);
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
