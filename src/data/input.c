#include "data/input.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/grey.h"
#include "data/listops_tsv.h"
#include "io/png.h"
#include "io/text.h"

enum { MOST_BYTES = 1 << 30, PIECE = 1 << 16, PAIR = 2, LRA_COLUMNS = 5 };

typedef struct Reading {
    const InputAsked *asked;
    Input *in;
    int *ids; /* of a line at most */
} Reading;

/* ---- examples ---- */

/* Takes over the name. */
static void add_example(Reading *r, int first, int second, char *name) {
    Input *in = r->in;
    in->name = mem_reserve(in->name, (size_t)in->n + 1, &in->cap, sizeof *in->name);
    in->name[in->n++] = name;
    dataset_add_example(in->made, 0, first, second);
}

static bool is_blank(Span s) {
    size_t n = 0;
    while (n < s.size && (s.at[n] == ' ' || s.at[n] == '\t')) n++;
    return n == s.size;
}

/* "1 17 4" as ids; how many, -1 and err. */
static int read_ids(const Reading *r, const Lines *l, Span s, Err *err) {
    int n = 0;
    const char *at = s.at, *end = s.at + s.size;
    while (at < end && *at == ' ') at++;
    while (at < end) {
        int id = 0;
        const char *word = at;
        for (; at < end && *at >= '0' && *at <= '9' && id < r->asked->vocab; at++)
            id = 10 * id + (*at - '0');
        if (at == word || (at < end && *at != ' ') || id >= r->asked->vocab) {
            err_set(err, EX_DATAERR,
                    "%s: line %d, byte %d: expected numbers from 0 to %d, between blanks", l->path,
                    l->line, (int)(word - l->text.at) + 1, r->asked->vocab - 1);
            return -1;
        }
        r->ids[n++] = id;
        while (at < end && *at == ' ') at++;
    }
    return n;
}

/* A text of a line as a document; -1 and err. */
static int add_document(Reading *r, const Lines *l, Span s, Err *err) {
    const bool bytes = r->asked->task->tokens == TOKENS_BYTES;
    if (bytes ? s.size == 0 : is_blank(s)) {
        err_set(err, EX_DATAERR, "%s: line %d: a column is empty", l->path, l->line);
        return -1;
    }
    if (bytes) return dataset_add_bytes(r->in->made, s.at, s.size, 1);
    const int n = r->asked->task->words ? listops_read(l, s, r->ids, err) : read_ids(r, l, s, err);
    return n < 0 ? -1 : dataset_add_document(r->in->made, r->ids, n);
}

static bool is_header(const Lines *l) { return l->line == 1 && span_is(l->text, "Source\tTarget"); }

/* The columns with the example's documents, of those of the line. */
static bool find_columns(const Reading *r, const Lines *l, Span *c, Err *err) {
    Span all[LRA_COLUMNS];
    const int n = lines_columns(l, all, LRA_COLUMNS);
    const bool pair = r->asked->per_example == PAIR;
    const int most = r->asked->task->words ? 2 : 1; /* expressions may have their targets */
    if (!pair && r->asked->task->tokens == TOKENS_BYTES) {
        c[0] = l->text;
    } else if (!pair && n > most) {
        return err_set(err, EX_DATAERR, "%s: line %d: %d columns between TABs, expected %s",
                       l->path, l->line, n,
                       most > 1 ? "an expression, or one and its target"
                                : "one, of numbers between blanks");
    } else if (!pair) {
        c[0] = all[0];
    } else if (n == PAIR || n == LRA_COLUMNS) {
        c[0] = all[n - 2], c[1] = all[n - 1];
    } else {
        return err_set(err, EX_DATAERR,
                       "%s: line %d: %d columns, expected two texts, or label, ids and two texts",
                       l->path, l->line, n);
    }
    return true;
}

static bool read_line(Reading *r, const Lines *l, Err *err) {
    Span c[PAIR];
    int document[PAIR] = {-1, -1};
    if ((r->asked->task->words && is_header(l)) || is_blank(l->text)) return true;
    if (!find_columns(r, l, c, err)) return false;
    for (int i = 0; i < r->asked->per_example; i++)
        if ((document[i] = add_document(r, l, c[i], err)) < 0) return false;
    add_example(r, document[0], document[1], text_format("line %d", l->line));
    return true;
}

static bool read_lines(Reading *r, const FileMap *m, const char *name, Err *err) {
    Lines l = {.map = *m, .path = name};
    bool ok = true;
    r->ids = mem_alloc(LINE_MOST / 2 + 1, sizeof *r->ids);
    while (ok && (ok = lines_next(&l, err)) && l.text.at) ok = read_line(r, &l, err);
    mem_free(r->ids);
    return ok;
}

static void add_picture(Reading *r, unsigned char *rgb, size_t n, const char *name) {
    GreyTable table;
    grey_table(&table);
    for (size_t i = 0; i < n; i++)
        rgb[i] = grey_of(&table, rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
    add_example(r, dataset_add_bytes(r->in->made, rgb, n, 0), -1, mem_strdup(name));
}

/* Weights may say any side. */
static bool read_picture(Reading *r, const FileMap *m, const char *name, Err *err) {
    enum { SIDE_MOST = 4096 };
    const int side = r->asked->side;
    if (side > SIDE_MOST)
        return err_set(err, EX_DATAERR,
                       "%s: the model was trained on pictures of %d x %d pixels; at most %d x %d "
                       "can be read",
                       name, side, side, SIDE_MOST, SIDE_MOST);
    const size_t n = (size_t)side * (size_t)side;
    unsigned char *rgb = mem_alloc(n, 3);
    const bool ok = png_rgb_decode(rgb, side, side, m->data, m->size, name, err);
    if (ok) add_picture(r, rgb, n, name);
    mem_free(rgb);
    return ok;
}

/* ---- files ---- */

/* Whether an example is a file, not a line of one. */
static bool is_whole(const InputAsked *a) {
    if (a->task->tokens == TOKENS_PIXELS) return true;
    return a->task->tokens == TOKENS_BYTES && a->per_example == 1 && !a->lines;
}

static bool read_content(Reading *r, const FileMap *m, const char *name, Err *err) {
    if (r->asked->task->tokens == TOKENS_PIXELS) return read_picture(r, m, name, err);
    if (!is_whole(r->asked)) return read_lines(r, m, name, err);
    const size_t most = (size_t)r->asked->most + 1, n = m->size < most ? m->size : most;
    add_example(r, dataset_add_bytes(r->in->made, m->data, n, 1), -1, mem_strdup(name));
    return true;
}

static bool read_file(Reading *r, const char *path, Err *err) {
    FileMap m;
    if (!file_map(&m, path, err)) return false;
    const bool ok = file_fits(path, m.size, MOST_BYTES, err) && read_content(r, &m, path, err);
    file_unmap(&m);
    return ok;
}

static bool read_one(Reading *r, Err *err) {
    const char *path = r->asked->from;
    return (file_exists(path) && file_is_empty(path)) || read_file(r, path, err);
}

static bool read_directory(Reading *r, Err *err) {
    FileList names;
    const InputAsked *a = r->asked;
    const char *end = a->task->tokens == TOKENS_PIXELS ? ".png" : ".txt";
    if (!is_whole(a))
        return err_set(err, EX_NOINPUT,
                       "%s: is a directory; of %s a file with an example a line was expected",
                       a->from, a->task->name);
    bool ok = file_list(&names, a->from, "", end, err);
    if (ok && names.n == 0)
        ok = err_set(err, EX_NOINPUT, "%s: has no file *%s, nor test.safetensors", a->from, end);
    for (int i = 0; ok && i < names.n; i++) ok = read_file(r, names.name[i], err);
    file_list_free(&names);
    return ok;
}

static bool read_stdin(Reading *r, Err *err) {
    static const char name[] = "standard input";
    unsigned char *data = NULL;
    size_t size = 0, cap = 0;
    ssize_t got = 1;
    while (got != 0 && size <= MOST_BYTES) {
        data = mem_reserve(data, size + PIECE, &cap, 1);
        got = read(STDIN_FILENO, data + size, PIECE);
        if (got < 0 && errno != EINTR) break;
        size += got > 0 ? (size_t)got : 0;
    }
    bool ok = got >= 0 || file_fails(name, "be read", EX_NOINPUT, err);
    if (ok && size == 0) ok = err_set(err, EX_NOINPUT, "%s: is empty", name);
    ok = ok && file_fits(name, size, MOST_BYTES, err) &&
         read_content(r, &(FileMap){.data = data, .size = size}, name, err);
    mem_free(data);
    return ok;
}

/* ---- prepared splits ---- */

/* The file of a prepared split that is asked for, or that the directory holds. */
static bool find_prepared(char path[FILE_PATH_MAX], const InputAsked *a) {
    char name[32];
    snprintf(name, sizeof name, "%s.safetensors",
             split_names[a->split < 0 ? SPLIT_TEST : a->split]);
    if (file_is_dir(a->from)) return task_join(path, a->from, name);
    snprintf(path, FILE_PATH_MAX, "%s", a->from);
    return text_ends(a->from, ".safetensors");
}

static bool open_prepared(Input *in, const char *path, Err *err) {
    if (!dataset_open_unlabelled(&in->set, path, err) || !dataset_check_hash(&in->set, err))
        return false;
    in->n = in->set.examples;
    in->name = mem_alloc((size_t)in->n, sizeof *in->name);
    for (int i = 0; i < in->n; i++) in->name[i] = text_format("example %d", i);
    return true;
}

/* ---- the whole ---- */

static bool make(Input *in, const InputAsked *a, Err *err) {
    Reading r = {.asked = a, .in = in};
    in->made = dataset_writer(a->task->name, "test", a->from, a->vocab, a->classes,
                              a->per_example == PAIR);
    const bool ok = !strcmp(a->from, "-")  ? read_stdin(&r, err)
                    : file_is_dir(a->from) ? read_directory(&r, err)
                                           : read_one(&r, err);
    if (ok && in->n == 0)
        return err_set(err, EX_NOINPUT, "%s: holds no example",
                       strcmp(a->from, "-") ? a->from : "standard input");
    if (ok) dataset_of(&in->set, in->made);
    return ok;
}

static bool check_asked(const InputAsked *a, bool prepared, Err *err) {
    const bool lines = a->task->tokens == TOKENS_BYTES && a->per_example == 1;
    if (a->lines && (prepared || !lines))
        return err_set(err, EX_USAGE, "--lines is of texts; of %s %s",
                       prepared ? "a prepared split" : a->task->name,
                       prepared      ? "examples are told apart already"
                       : is_whole(a) ? "a file is an example"
                                     : "a line is an example anyway");
    return a->split < 0 || (prepared && file_is_dir(a->from)) ||
           err_set(err, EX_USAGE, "--split: %s is no directory with prepared splits", a->from);
}

bool input_open(Input *in, const InputAsked *a, Err *err) {
    char path[FILE_PATH_MAX];
    *in = (Input){0};
    const bool prepared = find_prepared(path, a);
    if (!check_asked(a, prepared, err)) return false;
    const bool ok = prepared ? open_prepared(in, path, err) : make(in, a, err);
    if (!ok) input_close(in);
    return ok;
}

void input_close(Input *in) {
    for (int i = 0; i < in->n; i++) mem_free(in->name[i]);
    mem_free(in->name);
    dataset_close(&in->set);
    dataset_writer_free(in->made);
    *in = (Input){0};
}
