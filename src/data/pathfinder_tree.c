#include "data/pathfinder_tree.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/task.h"
#include "io/lines.h"
#include "io/npy.h"
#include "io/png.h"
#include "io/tar.h"
#include "io/text.h"

enum {
    NUMBER_MAX = 1000000000,
    TEXT_MAX = 64,
    FIELDS = 4,               /* that a row must have */
    PADDLES = 5,              /* the field that has the length of contours */
    READ = PADDLES + 1,       /* fields that are read; "" where there are fewer */
    METADATA_MAX = 512 << 20, /* bytes of a file: in NumPy's table a row has some 1,400 */
    ROOTS_MAX = 64
};

/* LRA's whole release has some 19 GB in 2.5 million files. */
static const TarLimits archive_limits = {.bytes = 40000000000ull, .entries = 10000000};

typedef struct Samples {
    TreeSample *at;
    int n;
    size_t cap;
    int paddles; /* of all contours; 0: of several lengths, or not told */
} Samples;

/* A file of metadata; of an archive with what it says, or what is wrong with it (NULL: nothing),
 * which matters only where its root is read. */
typedef struct Page {
    int batch, root;
    Samples samples;
    Err *wrong;
} Page;

typedef struct Pages {
    const char *place;
    Page *page;
    int n;
    char *root[ROOTS_MAX]; /* folders of an archive that hold some: "" or ending with '/' */
    int nroots;
} Pages;

struct Tree {
    char place[FILE_PATH_MAX]; /* the directory, or the archive */
    int side;
    Samples all;
    TreeSample **by_name;  /* sorted */
    unsigned char *pixels; /* of an archive's images; NULL for a directory */
    char *state;           /* of an archive's images: MISSING, ... */
    const char *root;      /* the archive's folder that is read */
};
enum { MISSING, THERE, EMPTY };

/* "<before><number><after>" with a number that has no leading zeros; -1 for other names. */
static int number_in(const char *name, const char *before, const char *after) {
    char again[TEXT_MAX];
    size_t n = strlen(before);
    if (strncmp(name, before, n) != 0 || name[n] < '0' || name[n] > '9') return -1;
    long v = strtol(name + n, NULL, 10);
    if (v >= NUMBER_MAX) return -1;
    snprintf(again, sizeof again, "%s%ld%s", before, v, after);
    return strcmp(again, name) == 0 ? (int)v : -1;
}

static void add_to(Samples *to, TreeSample s, int paddles) {
    to->paddles = to->n == 0 || to->paddles == paddles ? paddles : 0;
    to->at = mem_reserve(to->at, (size_t)to->n + 1, &to->cap, sizeof *to->at);
    to->at[to->n++] = s;
}

/* `where` in the file: its line, or its row, which numpy counts from 0. */
static bool add_sample(Samples *to, const char *name, const char *where,
                       char fields[READ][TEXT_MAX], Err *err) {
    const int paddles = number_in(fields[PADDLES], "", "");
    TreeSample s = {number_in(fields[0], "imgs/", ""), number_in(fields[1], "sample_", ".png"), 0};
    if (s.batch < 0 || s.number < 0)
        return err_set(err, EX_DATAERR,
                       "%s: %s names '%s' '%s', expected 'imgs/<number>' 'sample_<number>.png'",
                       name, where, fields[0], fields[1]);
    if (strcmp(fields[3], "0") != 0 && strcmp(fields[3], "1") != 0)
        return err_set(err, EX_DATAERR, "%s: %s: label '%s', expected 0 or 1", name, where,
                       fields[3]);
    s.label = fields[3][0] - '0';
    add_to(to, s, paddles > 0 ? paddles : 0);
    return true;
}

static bool read_table(Samples *to, const char *name, const unsigned char *bytes, size_t size,
                       Err *err) {
    Npy a;
    char fields[READ][TEXT_MAX], where[32];
    if (!npy_open(&a, bytes, size, name, err)) return false;
    if (a.columns < FIELDS)
        return err_set(err, EX_DATAERR, "%s: %d columns, expected at least %d", name, a.columns,
                       FIELDS);
    for (int row = 0; row < a.rows; row++) {
        for (int c = 0; c < READ; c++) {
            if (c < a.columns && npy_text(&a, row, c, fields[c], TEXT_MAX)) continue;
            if (c < FIELDS)
                return err_set(err, EX_DATAERR, "%s: row %d: column %d is no short text", name, row,
                               c);
            fields[c][0] = '\0';
        }
        snprintf(where, sizeof where, "row %d", row);
        if (!add_sample(to, name, where, fields, err)) return false;
    }
    return true;
}

/* The first fields of a line between single blanks; false where there are too few, or longer ones.
 */
static bool split_line(const unsigned char *line, size_t size, char fields[READ][TEXT_MAX]) {
    size_t at = 0;
    for (int i = 0; i < READ; i++, at++) {
        size_t n = 0;
        while (at < size && line[at] != ' ' && n < TEXT_MAX - 1) fields[i][n++] = (char)line[at++];
        fields[i][n] = '\0';
        if (n > 0 && strlen(fields[i]) == n && (at >= size || line[at] == ' ')) continue;
        if (i < FIELDS) return false;
        fields[i][0] = '\0';
    }
    return true;
}

static bool read_lines(Samples *to, const char *name, const unsigned char *bytes, size_t size,
                       Err *err) {
    char fields[READ][TEXT_MAX], where[32];
    Lines l = {.map = {.data = bytes, .size = size}, .path = name};
    bool ok;
    while ((ok = lines_next(&l, err)) && l.text.at) {
        if (!split_line((const unsigned char *)l.text.at, l.text.size, fields))
            return err_set(err, EX_DATAERR, "%s: line %d: expected folder, file, index and label",
                           name, l.line);
        snprintf(where, sizeof where, "line %d", l.line);
        if (!add_sample(to, name, where, fields, err)) return false;
    }
    return ok;
}

static bool read_metadata(Samples *to, const char *name, const unsigned char *bytes, size_t size,
                          Err *err) {
    const int before = to->n;
    if (!file_fits(name, size, METADATA_MAX, err)) return false;
    const bool ok = npy_is(bytes, size) ? read_table(to, name, bytes, size, err)
                                        : read_lines(to, name, bytes, size, err);
    return ok && (to->n > before ||
                  err_set(err, EX_DATAERR, "%s: names no image: fetch the files again", name));
}

static int compare_pages(const void *a, const void *b) {
    int x = ((const Page *)a)->batch, y = ((const Page *)b)->batch;
    return (x > y) - (x < y);
}

static void add_page(Pages *p, Page page) {
    p->page = mem_grow(p->page, (size_t)p->n + 1, sizeof *p->page);
    p->page[p->n++] = page;
}

static void sort_pages(Pages *p) { qsort(p->page, (size_t)p->n, sizeof *p->page, compare_pages); }

/* ---- the order of names ---- */

static int compare_names(const void *a, const void *b) {
    const TreeSample *x = *(TreeSample *const *)a, *y = *(TreeSample *const *)b;
    return x->batch != y->batch ? (x->batch > y->batch) - (x->batch < y->batch)
                                : (x->number > y->number) - (x->number < y->number);
}

static bool sort_names(Tree *t, Err *err) {
    t->by_name = mem_alloc((size_t)t->all.n, sizeof *t->by_name);
    for (int i = 0; i < t->all.n; i++) t->by_name[i] = &t->all.at[i];
    qsort(t->by_name, (size_t)t->all.n, sizeof *t->by_name, compare_names);
    for (int i = 1; i < t->all.n; i++) {
        if (compare_names(&t->by_name[i - 1], &t->by_name[i]) == 0)
            return err_set(err, EX_DATAERR, "%s: metadata names imgs/%d/sample_%d.png twice",
                           t->place, t->by_name[i]->batch, t->by_name[i]->number);
    }
    return true;
}

/* -1 where metadata does not name it. */
static int find_sample(const Tree *t, int batch, int number) {
    const TreeSample want = {.batch = batch, .number = number}, *key = &want;
    TreeSample **at = bsearch(&key, t->by_name, (size_t)t->all.n, sizeof *at, compare_names);
    return at ? (int)(*at - t->all.at) : -1;
}

/* ---- a directory ---- */

static bool is_tree(const char *dir) {
    char path[FILE_PATH_MAX];
    return task_join(path, dir, "imgs") && file_is_dir(path) && task_join(path, dir, "metadata") &&
           file_is_dir(path);
}

bool tree_locate(char *place, const char *from) {
    snprintf(place, FILE_PATH_MAX, "%s", from);
    return is_tree(place) || (task_join(place, from, PATHFINDER_HARD) && is_tree(place));
}

static bool list_pages(Pages *p, const char *place, Err *err) {
    char path[FILE_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/metadata", place);
    FileList names;
    if (!file_list(&names, path, "", ".npy", err)) return false;
    for (int i = 0; i < names.n; i++) {
        int batch = number_in(strrchr(names.name[i], '/') + 1, "", ".npy");
        if (batch >= 0) add_page(p, (Page){.batch = batch});
    }
    file_list_free(&names);
    if (p->n == 0) return err_set(err, EX_NOINPUT, "%s: no <number>.npy in it", path);
    sort_pages(p);
    return true;
}

static bool read_directory(Tree *t, Err *err) {
    Pages p = {0};
    bool ok = list_pages(&p, t->place, err);
    for (int i = 0; ok && i < p.n; i++) {
        char path[FILE_PATH_MAX + 64];
        FileMap map;
        snprintf(path, sizeof path, "%s/metadata/%d.npy", t->place, p.page[i].batch);
        ok = file_map(&map, path, err);
        if (ok) ok = read_metadata(&t->all, path, map.data, map.size, err);
        file_unmap(&map);
    }
    mem_free(p.page);
    return ok && sort_names(t, err);
}

static bool read_image(const Tree *t, int i, unsigned char *pixels, bool *empty, Err *err) {
    const TreeSample *s = &t->all.at[i];
    char path[FILE_PATH_MAX + 64];
    FileMap map;
    snprintf(path, sizeof path, "%s/imgs/%d/sample_%d.png", t->place, s->batch, s->number);
    *empty = false;
    if (!file_map(&map, path, err)) return *empty = err->code == EX_DATAERR && file_is_empty(path);
    bool ok = png_grey_decode(pixels, t->side, t->side, map.data, map.size, path, err);
    file_unmap(&map);
    return ok;
}

/* ---- an archive ---- */

/* Cuts "<root>metadata/<batch>.npy" (what = "metadata/"), or the same with imgs/<batch>/...; the
 * length of root, or -1. */
static int cut_root(const char *name, const char *what) {
    const char *at = NULL;
    for (const char *p = name; (p = strstr(p, what)); p++)
        if (p == name || p[-1] == '/') at = p;
    return at ? (int)(at - name) : -1;
}

/* The number of the root that a name begins with; -1: there are too many. */
static int add_root(Pages *p, const char *name, int length) {
    for (int i = 0; i < p->nroots; i++)
        if (strncmp(p->root[i], name, (size_t)length) == 0 && p->root[i][length] == '\0') return i;
    if (p->nroots == ROOTS_MAX) return -1;
    p->root[p->nroots] = text_format("%.*s", length, name);
    return p->nroots++;
}

static bool collect_page(void *pages, Tar *tar, const TarEntry *entry, Err *err) {
    Pages *p = pages;
    const int cut = cut_root(entry->name, "metadata/");
    Page page = {.batch = cut < 0 ? -1 : number_in(entry->name + cut, "metadata/", ".npy")};
    if (page.batch < 0) return true;
    page.root = add_root(p, entry->name, cut);
    if (page.root < 0)
        return err_set(err, EX_DATAERR,
                       "%s: more than %d folders in it have metadata: unpack the archive and "
                       "import the right one",
                       p->place, ROOTS_MAX);
    unsigned char *bytes = tar_bytes(tar, entry, METADATA_MAX, err);
    if (!bytes) return false;
    char name[FILE_PATH_MAX + 64];
    Err wrong;
    snprintf(name, sizeof name, "%s: metadata/%d.npy", p->place, page.batch);
    if (!read_metadata(&page.samples, name, bytes, (size_t)entry->size, &wrong)) {
        page.wrong = mem_alloc(1, sizeof wrong);
        *page.wrong = wrong;
    }
    mem_free(bytes);
    add_page(p, page);
    return true;
}

/* The root to read: the only one, or else the only one with this task's folders. */
static int choose_root(const Tree *t, const Pages *p, Err *err) {
    char want[64];
    int found = -1, matches = 0;
    if (p->nroots == 1) return 0;
    snprintf(want, sizeof want, "pathfinder%d/" PATHFINDER_HARD "/", t->side);
    for (int i = 0; i < p->nroots; i++) {
        if (!text_ends(p->root[i], want)) continue;
        found = i;
        matches++;
    }
    if (matches == 1) return found;
    err_set(err, EX_NOINPUT,
            "%s: %d folders in it have metadata, %d of them called %s: unpack the archive and "
            "import the right one",
            t->place, p->nroots, matches, want);
    return -1;
}

static bool join_pages(Tree *t, Pages *p, int root, Err *err) {
    sort_pages(p);
    for (int i = 0; i < p->n; i++) {
        const Page *page = &p->page[i];
        if (page->root != root) continue;
        if (page->wrong) {
            *err = *page->wrong;
            return false;
        }
        for (int k = 0; k < page->samples.n; k++)
            add_to(&t->all, page->samples.at[k], page->samples.paddles);
    }
    return sort_names(t, err);
}

/* Which sample an entry of the archive is; -1 for others. */
static int entry_sample(const Tree *t, const char *name) {
    char folder[TEXT_MAX];
    int cut = cut_root(name, "imgs/");
    if (cut < 0 || (size_t)cut != strlen(t->root) || strncmp(name, t->root, (size_t)cut) != 0)
        return -1;
    const char *slash = strrchr(name, '/');
    int length = (int)(slash - name) - cut;
    if (length >= TEXT_MAX) return -1;
    snprintf(folder, sizeof folder, "%.*s", length, name + cut);
    int batch = number_in(folder, "imgs/", ""), number = number_in(slash + 1, "sample_", ".png");
    return batch < 0 || number < 0 ? -1 : find_sample(t, batch, number);
}

static bool decode_entry(void *tree, Tar *tar, const TarEntry *entry, Err *err) {
    Tree *t = tree;
    const size_t pixels = (size_t)t->side * (size_t)t->side;
    const int i = entry_sample(t, entry->name);
    if (i < 0) return true;
    if (t->state[i] != MISSING) return err_set(err, EX_DATAERR, "%s: is there twice", entry->title);
    t->state[i] = entry->size ? THERE : EMPTY;
    if (entry->size == 0) return true;
    unsigned char *bytes = tar_bytes(tar, entry, 2 * pixels + (1 << 16), err);
    bool ok = bytes && png_grey_decode(t->pixels + (size_t)i * pixels, t->side, t->side, bytes,
                                       (size_t)entry->size, entry->title, err);
    mem_free(bytes);
    return ok;
}

static bool read_pages(Tree *t, Pages *p, Err *err) {
    if (!tar_each(t->place, archive_limits, collect_page, p, err)) return false;
    if (p->n == 0) return err_set(err, EX_NOINPUT, "%s: no metadata/<number>.npy in it", t->place);
    const int root = choose_root(t, p, err);
    if (root < 0) return false;
    t->root = p->root[root];
    return join_pages(t, p, root, err);
}

/* Twice from end to end: metadata may stand behind the images it speaks of. */
static bool read_archive(Tree *t, Err *err) {
    Pages p = {.place = t->place};
    const size_t side = (size_t)t->side;
    bool ok = read_pages(t, &p, err) && mem_fits((size_t)t->all.n * side * side, err);
    if (ok) {
        t->pixels = mem_alloc((size_t)t->all.n, side * side);
        t->state = mem_alloc((size_t)t->all.n, 1);
        ok = tar_each(t->place, archive_limits, decode_entry, t, err);
    }
    for (int i = 0; i < p.n; i++) {
        mem_free(p.page[i].samples.at);
        mem_free(p.page[i].wrong);
    }
    for (int i = 0; i < p.nroots; i++) mem_free(p.root[i]);
    mem_free(p.page);
    t->root = NULL; /* a name of theirs */
    return ok;
}

/* ---- both ---- */

Tree *tree_open(const char *place, int side, Err *err) {
    Tree *t = mem_alloc(1, sizeof *t);
    t->side = side;
    snprintf(t->place, sizeof t->place, "%s", place);
    if (file_is_dir(place) ? read_directory(t, err) : read_archive(t, err)) return t;
    tree_close(t);
    return NULL;
}

void tree_close(Tree *t) {
    if (!t) return;
    mem_free(t->all.at);
    mem_free(t->by_name);
    mem_free(t->pixels);
    mem_free(t->state);
    mem_free(t);
}

int tree_count(const Tree *t) { return t->all.n; }

int tree_paddles(const Tree *t) { return t->all.paddles; }

TreeSample tree_sample(const Tree *t, int i) { return t->all.at[i]; }

bool tree_pixels(Tree *t, int i, unsigned char *pixels, bool *empty, Err *err) {
    size_t size = (size_t)t->side * (size_t)t->side;
    if (!t->pixels) return read_image(t, i, pixels, empty, err);
    if (t->state[i] == MISSING)
        return err_set(err, EX_NOINPUT, "%s: imgs/%d/sample_%d.png is missing", t->place,
                       t->all.at[i].batch, t->all.at[i].number);
    *empty = t->state[i] == EMPTY;
    memcpy(pixels, t->pixels + (size_t)i * size, size);
    return true;
}
