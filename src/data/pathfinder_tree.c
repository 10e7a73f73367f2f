#include "data/pathfinder_tree.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "io/npy.h"
#include "io/png.h"
#include "io/tar.h"

enum {
    NUMBER_MAX = 1000000000,
    TEXT_MAX = 64,
    FIELDS = 4,
    METADATA_MAX = 64 << 20,  /* bytes of a file */
    METADATA_ALL = 256 << 20, /* of an archive's files */
    ROOTS_MAX = 64
};

/* LRA's whole release has some 19 GB in 2.5 million files. */
static const TarLimits archive_limits = {.bytes = 40000000000ull, .entries = 10000000};

/* A file of metadata, before it is parsed. */
typedef struct Page {
    int batch, root;
    unsigned char *bytes; /* NULL: it is in a directory */
    size_t size;
} Page;

/* A sample's name, and where in the metadata it is. */
typedef struct Named {
    int batch, number, index;
} Named;

struct Tree {
    char place[FILE_PATH_MAX]; /* the directory, or the archive */
    int side;
    TreeSample *samples;
    int n, cap;
    Named *by_name;        /* sorted */
    unsigned char *pixels; /* of an archive's images; NULL for a directory */
    char *state;           /* of an archive's images: MISSING, ... */
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

static bool add_sample(Tree *t, const char *name, int row, char fields[FIELDS][TEXT_MAX],
                       Err *err) {
    TreeSample s = {number_in(fields[0], "imgs/", ""), number_in(fields[1], "sample_", ".png"), 0};
    if (s.batch < 0 || s.number < 0)
        return err_set(err, EX_DATAERR,
                       "%s: row %d names '%s' '%s', expected 'imgs/<number>' "
                       "'sample_<number>.png'",
                       name, row, fields[0], fields[1]);
    if (strcmp(fields[3], "0") != 0 && strcmp(fields[3], "1") != 0)
        return err_set(err, EX_DATAERR, "%s: row %d: label '%s', expected 0 or 1", name, row,
                       fields[3]);
    s.label = fields[3][0] - '0';
    if (t->n == t->cap) {
        t->cap = 2 * t->cap + 1024;
        t->samples = mem_grow(t->samples, (size_t)t->cap, sizeof *t->samples);
    }
    t->samples[t->n++] = s;
    return true;
}

static bool read_table(Tree *t, const char *name, const unsigned char *bytes, size_t size,
                       Err *err) {
    Npy a;
    char fields[FIELDS][TEXT_MAX];
    if (!npy_open(&a, bytes, size, name, err)) return false;
    if (a.columns < FIELDS)
        return err_set(err, EX_DATAERR, "%s: %d columns, expected at least %d", name, a.columns,
                       FIELDS);
    for (int row = 0; row < a.rows; row++) {
        for (int c = 0; c < FIELDS; c++)
            if (!npy_text(&a, row, c, fields[c], TEXT_MAX))
                return err_set(err, EX_DATAERR, "%s: row %d: column %d is no short text", name, row,
                               c);
        if (!add_sample(t, name, row, fields, err)) return false;
    }
    return true;
}

/* The first fields of a line between single blanks; false where there are fewer, or longer ones. */
static bool split_line(const unsigned char *line, size_t size, char fields[FIELDS][TEXT_MAX]) {
    size_t at = 0;
    for (int i = 0; i < FIELDS; i++, at++) {
        size_t n = 0;
        while (at < size && line[at] != ' ' && n < TEXT_MAX - 1) fields[i][n++] = (char)line[at++];
        fields[i][n] = '\0';
        if (n == 0 || strlen(fields[i]) != n || (at < size && line[at] != ' ')) return false;
        if (at >= size && i < FIELDS - 1) return false;
    }
    return true;
}

static bool read_lines(Tree *t, const char *name, const unsigned char *bytes, size_t size,
                       Err *err) {
    char fields[FIELDS][TEXT_MAX];
    for (size_t at = 0, row = 0; at < size; row++) {
        const unsigned char *line = bytes + at, *end = memchr(line, '\n', size - at);
        size_t length = end ? (size_t)(end - line) : size - at;
        at += length + 1;
        if (length > 0 && line[length - 1] == '\r') length--;
        if (!split_line(line, length, fields))
            return err_set(err, EX_DATAERR, "%s: line %zu: expected folder, file, index and label",
                           name, row + 1);
        if (!add_sample(t, name, (int)row, fields, err)) return false;
    }
    return true;
}

static bool too_large(const char *name, uint64_t size, Err *err) {
    return err_set(err, EX_DATAERR, "%s: %" PRIu64 " bytes, expected at most %d", name, size,
                   METADATA_MAX);
}

static bool read_metadata(Tree *t, const char *name, const unsigned char *bytes, size_t size,
                          Err *err) {
    if (size > METADATA_MAX) return too_large(name, size, err);
    return npy_is(bytes, size) ? read_table(t, name, bytes, size, err)
                               : read_lines(t, name, bytes, size, err);
}

static int compare_pages(const void *a, const void *b) {
    int x = ((const Page *)a)->batch, y = ((const Page *)b)->batch;
    return (x > y) - (x < y);
}

static void add_page(Page **pages, int *n, Page page) {
    *pages = mem_grow(*pages, (size_t)*n + 1, sizeof **pages);
    (*pages)[(*n)++] = page;
}

/* ---- the order of names ---- */

static int compare_names(const void *a, const void *b) {
    const Named *x = a, *y = b;
    return x->batch != y->batch ? (x->batch > y->batch) - (x->batch < y->batch)
                                : (x->number > y->number) - (x->number < y->number);
}

static bool sort_names(Tree *t, Err *err) {
    if (t->n == 0) return err_set(err, EX_DATAERR, "%s: its metadata names no image", t->place);
    t->by_name = mem_alloc((size_t)t->n, sizeof *t->by_name);
    for (int i = 0; i < t->n; i++)
        t->by_name[i] = (Named){t->samples[i].batch, t->samples[i].number, i};
    qsort(t->by_name, (size_t)t->n, sizeof *t->by_name, compare_names);
    for (int i = 1; i < t->n; i++) {
        const Named *s = &t->by_name[i];
        if (compare_names(s - 1, s) == 0)
            return err_set(err, EX_DATAERR, "%s: metadata names imgs/%d/sample_%d.png twice",
                           t->place, s->batch, s->number);
    }
    return true;
}

/* -1 where metadata does not name it. */
static int find_sample(const Tree *t, int batch, int number) {
    const Named want = {batch, number, 0};
    const Named *at = bsearch(&want, t->by_name, (size_t)t->n, sizeof want, compare_names);
    return at ? at->index : -1;
}

/* ---- a directory ---- */

static bool is_tree(const char *dir) {
    char path[FILE_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/imgs", dir);
    if (n >= FILE_PATH_MAX || !file_is_dir(path)) return false;
    n = snprintf(path, sizeof path, "%s/metadata", dir);
    return n < FILE_PATH_MAX && file_is_dir(path);
}

bool tree_locate(char buf[FILE_PATH_MAX], const char *from) {
    int n = snprintf(buf, FILE_PATH_MAX, "%s", from);
    if (n < FILE_PATH_MAX && is_tree(buf)) return true;
    n = snprintf(buf, FILE_PATH_MAX, "%s/" PATHFINDER_HARD, from);
    return n < FILE_PATH_MAX && is_tree(buf);
}

static bool list_pages(const char *place, Page **pages, int *n, Err *err) {
    char path[FILE_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/metadata", place);
    DIR *d = opendir(path);
    if (!d) return err_set(err, EX_NOINPUT, "%s: cannot be read", path);
    for (struct dirent *e; (e = readdir(d));) {
        int batch = number_in(e->d_name, "", ".npy");
        if (batch >= 0) add_page(pages, n, (Page){.batch = batch});
    }
    closedir(d);
    if (*n == 0) return err_set(err, EX_NOINPUT, "%s: holds no <number>.npy", path);
    qsort(*pages, (size_t)*n, sizeof **pages, compare_pages);
    return true;
}

static bool read_directory(Tree *t, Err *err) {
    Page *pages = NULL;
    int n = 0;
    bool ok = list_pages(t->place, &pages, &n, err);
    for (int i = 0; ok && i < n; i++) {
        char path[FILE_PATH_MAX + 64];
        FileMap map;
        snprintf(path, sizeof path, "%s/metadata/%d.npy", t->place, pages[i].batch);
        ok = file_map(&map, path, err);
        if (ok) ok = read_metadata(t, path, map.data, map.size, err);
        file_unmap(&map);
    }
    mem_free(pages);
    return ok;
}

static bool read_image(const Tree *t, int i, unsigned char *pixels, bool *empty, Err *err) {
    const TreeSample *s = &t->samples[i];
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

typedef struct Roots {
    char *name[ROOTS_MAX]; /* folders in the archive that hold metadata: "" or ending with '/' */
    int n;
} Roots;

static int add_root(Roots *roots, const char *name, int length) {
    int i = 0;
    while (i < roots->n &&
           (strncmp(roots->name[i], name, (size_t)length) != 0 || roots->name[i][length] != '\0'))
        i++;
    if (i < roots->n || i == ROOTS_MAX) return i < roots->n ? i : -1;
    roots->name[i] = mem_strdup(name);
    roots->name[i][length] = '\0';
    return roots->n++;
}

/* `room` is what all pages may still take. */
static bool read_page(Tar *tar, const TarEntry *entry, const char *place, uint64_t *room,
                      Page *page, Err *err) {
    char name[FILE_PATH_MAX + 256];
    snprintf(name, sizeof name, "%s: %.200s", place, entry->name);
    if (entry->size > METADATA_MAX) return too_large(name, entry->size, err);
    if (entry->size > *room)
        return err_set(err, EX_DATAERR, "%s: with it the metadata have more than %d bytes", name,
                       METADATA_ALL);
    *room -= entry->size;
    page->bytes = mem_alloc((size_t)entry->size + 1, 1);
    if (tar_read(tar, page->bytes, (size_t)entry->size, &page->size, err)) return true;
    mem_free(page->bytes);
    return false;
}

static bool collect_pages(const Tree *t, Roots *roots, Page **pages, int *n, Err *err) {
    Tar *tar = tar_open(t->place, archive_limits, err);
    if (!tar) return false;
    TarEntry entry;
    uint64_t room = METADATA_ALL;
    bool ok;
    while ((ok = tar_next(tar, &entry, err)) && entry.name) {
        int cut = cut_root(entry.name, "metadata/");
        Page page = {.batch = cut < 0 ? -1 : number_in(entry.name + cut, "metadata/", ".npy")};
        if (page.batch < 0 || (page.root = add_root(roots, entry.name, cut)) < 0) continue;
        if (!(ok = read_page(tar, &entry, t->place, &room, &page, err))) break;
        add_page(pages, n, page);
    }
    tar_close(tar);
    return ok;
}

/* The root to read: the only one, or else the only one with this task's folders. */
static int choose_root(const Tree *t, const Roots *roots, Err *err) {
    char want[64];
    int found = -1, matches = 0;
    if (roots->n == 1) return 0;
    snprintf(want, sizeof want, "pathfinder%d/" PATHFINDER_HARD "/", t->side);
    for (int i = 0; i < roots->n; i++) {
        size_t have = strlen(roots->name[i]), need = strlen(want);
        if (have < need || strcmp(roots->name[i] + have - need, want) != 0) continue;
        found = i;
        matches++;
    }
    if (matches == 1) return found;
    err_set(err, EX_NOINPUT,
            "%s: %d folders in it have metadata, %d of them called %s: unpack the archive and "
            "import the right one",
            t->place, roots->n, matches, want);
    return -1;
}

static bool parse_pages(Tree *t, Page *pages, int n, int root, Err *err) {
    qsort(pages, (size_t)n, sizeof *pages, compare_pages);
    for (int i = 0; i < n; i++) {
        char name[FILE_PATH_MAX + 64];
        snprintf(name, sizeof name, "%s: metadata/%d.npy", t->place, pages[i].batch);
        if (pages[i].root == root && !read_metadata(t, name, pages[i].bytes, pages[i].size, err))
            return false;
    }
    return sort_names(t, err);
}

/* Which sample an entry of the archive is; -1 for others. */
static int entry_sample(const Tree *t, const char *root, const char *name) {
    char folder[TEXT_MAX];
    int cut = cut_root(name, "imgs/");
    if (cut < 0 || (size_t)cut != strlen(root) || strncmp(name, root, (size_t)cut) != 0) return -1;
    const char *slash = strrchr(name, '/');
    int length = (int)(slash - name) - cut;
    if (length >= TEXT_MAX) return -1;
    snprintf(folder, sizeof folder, "%.*s", length, name + cut);
    int batch = number_in(folder, "imgs/", ""), number = number_in(slash + 1, "sample_", ".png");
    return batch < 0 || number < 0 ? -1 : find_sample(t, batch, number);
}

static bool decode_entry(Tree *t, int i, Tar *tar, const TarEntry *entry, Err *err) {
    char name[FILE_PATH_MAX + 256];
    size_t pixels = (size_t)t->side * (size_t)t->side, most = 2 * pixels + (1 << 16), got;
    snprintf(name, sizeof name, "%s: %.200s", t->place, entry->name);
    if (t->state[i] != MISSING) return err_set(err, EX_DATAERR, "%s: is there twice", name);
    t->state[i] = entry->size ? THERE : EMPTY;
    if (entry->size == 0) return true;
    if (entry->size > most)
        return err_set(err, EX_DATAERR, "%s: %" PRIu64 " bytes, expected at most %zu", name,
                       entry->size, most);
    unsigned char *bytes = mem_alloc((size_t)entry->size, 1);
    bool ok =
        tar_read(tar, bytes, (size_t)entry->size, &got, err) &&
        png_grey_decode(t->pixels + (size_t)i * pixels, t->side, t->side, bytes, got, name, err);
    mem_free(bytes);
    return ok;
}

static bool decode_archive(Tree *t, const char *root, Err *err) {
    TarEntry entry;
    bool ok;
    t->pixels = mem_alloc((size_t)t->n, (size_t)t->side * (size_t)t->side);
    t->state = mem_alloc((size_t)t->n, 1);
    Tar *tar = tar_open(t->place, archive_limits, err);
    if (!tar) return false;
    while ((ok = tar_next(tar, &entry, err)) && entry.name) {
        int i = entry_sample(t, root, entry.name);
        if (i >= 0 && !(ok = decode_entry(t, i, tar, &entry, err))) break;
    }
    tar_close(tar);
    return ok;
}

/* Twice from end to end: metadata may stand behind the images it speaks of. */
static bool read_archive(Tree *t, Err *err) {
    Roots roots = {.n = 0};
    Page *pages = NULL;
    int n = 0, root = -1;
    bool ok = collect_pages(t, &roots, &pages, &n, err);
    if (ok && n == 0) ok = err_set(err, EX_NOINPUT, "%s: holds no metadata/<number>.npy", t->place);
    if (ok) ok = (root = choose_root(t, &roots, err)) >= 0;
    if (ok) ok = parse_pages(t, pages, n, root, err) && decode_archive(t, roots.name[root], err);
    for (int i = 0; i < n; i++) mem_free(pages[i].bytes);
    for (int i = 0; i < roots.n; i++) mem_free(roots.name[i]);
    mem_free(pages);
    return ok;
}

/* ---- both ---- */

static bool read_tree(Tree *t, const char *from, Err *err) {
    if (!file_exists(from)) return err_set(err, EX_NOINPUT, "%s: no such file or directory", from);
    if (tree_locate(t->place, from)) return read_directory(t, err) && sort_names(t, err);
    if (file_is_dir(from))
        return err_set(err, EX_NOINPUT, "%s: holds no imgs and metadata, nor " PATHFINDER_HARD,
                       from);
    if (snprintf(t->place, sizeof t->place, "%s", from) >= (int)sizeof t->place)
        return err_set(err, EX_NOINPUT, "%.80s...: the name is too long", from);
    return read_archive(t, err);
}

Tree *tree_open(const char *from, int side, Err *err) {
    Tree *t = mem_alloc(1, sizeof *t);
    t->side = side;
    if (read_tree(t, from, err)) return t;
    tree_close(t);
    return NULL;
}

void tree_close(Tree *t) {
    if (!t) return;
    mem_free(t->samples);
    mem_free(t->by_name);
    mem_free(t->pixels);
    mem_free(t->state);
    mem_free(t);
}

int tree_count(const Tree *t) { return t->n; }

TreeSample tree_sample(const Tree *t, int i) { return t->samples[i]; }

bool tree_pixels(Tree *t, int i, unsigned char *pixels, bool *empty, Err *err) {
    size_t size = (size_t)t->side * (size_t)t->side;
    if (!t->pixels) return read_image(t, i, pixels, empty, err);
    if (t->state[i] == MISSING)
        return err_set(err, EX_NOINPUT, "%s: imgs/%d/sample_%d.png is missing", t->place,
                       t->samples[i].batch, t->samples[i].number);
    *empty = t->state[i] == EMPTY;
    memcpy(pixels, t->pixels + (size_t)i * size, size);
    return true;
}
