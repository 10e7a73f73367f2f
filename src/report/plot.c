#define _GNU_SOURCE /* strcasestr */
#include "report/plot.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"
#include "io/file.h"
#include "io/text.h"

extern char **environ;

typedef enum Terminal { SVG_FILE, SVG_INLINE, PNG_FILE, PDF_FILE } Terminal;

static const double inch = 25.4, screen = 25.4 / 96; /* millimetres; of a pixel on a screen */
static const double print_letters = 8 / 10.5;        /* of those on a screen, 14 pixels high */

/* Okabe and Ito's colours, which the colour-blind tell apart too; the light ones darkened a little,
 * the black one left out. */
const char *plot_colour(int i) {
    static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                          "#c79000", "#4ba3d8", "#8a6fd1", "#a0522d"};
    return colours[i % (int)(sizeof colours / sizeof *colours)];
}

void plot_line_style(FILE *f, int i) {
    const double width = i < 4 ? 2.2 - 0.3 * i : 1.2;
    fprintf(f, " lw %.1f lc rgb '%s' dt %d", width, plot_colour(i), i % 5 + 1);
}

void plot_point_style(FILE *f, int i) {
    static const int marks[] = {7, 5, 9, 11, 13, 6, 4, 8, 10};
    fprintf(f, " pt %d", marks[i % (int)(sizeof marks / sizeof *marks)]);
}

void plot_line_end(FILE *f, int i, const char *name) {
    plot_line_style(f, i);
    plot_point_style(f, i);
    fputs(" title ", f);
    text_gnuplot(f, name);
}

/* Of a size with a height alone, too. */
static double millimetres_across(PlotSize size) {
    return size.width > 0 ? size.width : 1.6 * size.height;
}

/* Pixels: `width` where no size was asked for. */
static int pixels_across(PlotSize size, int width) {
    const double across = millimetres_across(size);
    return across > 0 ? (int)(across / (screen * print_letters) + 0.5) : width;
}

/* Millimetres of one of `across` pixels. */
static double pixel_of(PlotSize size, int across) {
    return millimetres_across(size) > 0 ? millimetres_across(size) / across : screen;
}

static double pixels_high(PlotSize size, int across, double height) {
    return size.height > 0 ? size.height / pixel_of(size, across) : height;
}

/* `height` of the whole, where none was asked for. */
static void start(Plot *p, PlotSize size, int across, double height) {
    const double pixel = pixel_of(size, across);
    *p = (Plot){.width = across,
                .drawn = {across * pixel, pixels_high(size, across, height) * pixel},
                .print = millimetres_across(size) > 0};
    p->f = text_stream(&p->script, &p->size);
    fputs("set border 3 lc rgb 'black'\n"
          "set tics nomirror out\n"
          "set grid lc rgb '#808080' lw 0.5 dt '.'\n",
          p->f);
}

void plot_open(Plot *p, PlotSize size, const Legend *legend) {
    enum { WIDTH = 800, HEIGHT = 440 };
    const int across = pixels_across(size, WIDTH);
    const double own = (double)HEIGHT * across / WIDTH;
    const LegendFit fit = legend_fit(legend, across, pixels_high(size, across, own));
    start(p, size, across, own + fit.height);
    legend_print(p->f, legend, &fit);
}

void plot_panels(Plot *p, PlotSize size, int panels, const Legend *legend) {
    enum { PANEL = 550, HEIGHT = 480, LEAST = 330 };
    REQUIRE(panels > 0, "a plot of %d panels", panels);
    const int width = pixels_across(size, panels * PANEL + (panels == 1) * 150);
    const bool beside = width >= panels * LEAST;
    const int across = beside ? width / panels : width, rows = beside ? 1 : panels;
    const double own = HEIGHT * fmin(across, PANEL) / PANEL;
    const LegendFit fit = legend_fit(legend, across, pixels_high(size, width, rows * own) / rows);
    start(p, size, width, rows * (own + fit.height));
    legend_print(p->f, legend, &fit);
    if (panels > 1) fprintf(p->f, "set multiplot layout %d,%d\n", rows, beside ? panels : 1);
}

void plot_panels_end(Plot *p, int panels) {
    if (panels > 1) fputs("unset multiplot\n", p->f);
}

void plot_free(Plot *p) {
    if (p->f) fclose(p->f);
    mem_free(p->script);
    *p = (Plot){0};
}

bool plot_check_path(const char *path, Err *err) {
    return text_ends(path, ".svg") || text_ends(path, ".png") || text_ends(path, ".pdf") ||
           err_set(err, EX_USAGE, "--plot: %s: expected a name that ends in .svg, .png or .pdf",
                   path);
}

static Terminal terminal_of(const char *path) {
    return text_ends(path, ".png") ? PNG_FILE : text_ends(path, ".pdf") ? PDF_FILE : SVG_FILE;
}

/* Sizes are pixels, of a PDF centimetres; of fonts points, of SVG pixels. What gnuplot lays out by
 * the size of letters it scales with them but in SVG, where they have another size instead; and
 * those of a PDF are 4/3 as large as it is told. */
static void print_terminal(FILE *f, const Plot *p, Terminal terminal) {
    static const struct {
        const char *how;
        double letters, scale;
    } terminals[] = {{"svg background '#ffffff'", 14, 1},
                     {"svg", 14, 1},
                     {"pngcairo background '#ffffff'", 11, 1},
                     {"pdfcairo", 10.5, 0.75}};
    const bool svg = terminal == SVG_FILE || terminal == SVG_INLINE;
    const double dots =
        terminal == PNG_FILE && p->print ? 300 / inch : 1 / screen; /* a millimetre */
    const PlotSize size = {p->drawn.width * dots, p->drawn.height * dots};
    const double scale =
        terminal == PDF_FILE ? p->drawn.width / (p->width * screen) : size.width / p->width;
    const double letters = terminals[terminal].letters * (svg ? scale : 1),
                 fonts = terminals[terminal].scale * (svg ? 1 : scale);
    fprintf(f, "set encoding utf8\nset terminal %s font 'sans-serif,%.4g' ",
            terminals[terminal].how, letters);
    if (terminal == PDF_FILE)
        fprintf(f, "size %.4gcm,%.4gcm", p->drawn.width / 10, p->drawn.height / 10);
    else
        fprintf(f, "size %.0f,%.0f", size.width, size.height);
    if (fabs(fonts - 1) > 1e-9) fprintf(f, " fontscale %.4g", fonts);
    if (fabs(scale - 1) > 1e-9) fprintf(f, " linewidth %.4g", scale);
    if (fabs(scale - 1) > 1e-9 && !svg) fprintf(f, " pointscale %.4g", scale);
    fprintf(f, " noenhanced\nletters = %.4g\n", letters);
}

/* ---- the program ---- */

static bool no_gnuplot(int why, Err *err) {
    if (why == ENOENT)
        return err_set(err, EX_UNAVAILABLE,
                       "there is no gnuplot here, which draws the plots; Debian has it in: "
                       "gnuplot-nox");
    return err_set(err, why == EACCES ? EX_UNAVAILABLE : EX_OSERR, "gnuplot cannot be run: %s",
                   err_words(why));
}

static int spawn(pid_t *pid, FILE *in, FILE *out, FILE *errors) {
    char *argv[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char[]){"-"}, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(errors), STDERR_FILENO);
    const int why = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return why;
}

/* gnuplot's own words: their last line that says something, and warns of nothing. */
static bool refused(FILE *errors, int status, Err *err) {
    char line[256], last[256] = "it says nothing";
    rewind(errors);
    while (fgets(line, sizeof line, errors)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[strspn(line, " \t^")] && !strcasestr(line, "warning"))
            snprintf(last, sizeof last, "%s", line);
    }
    return err_set(err, EX_UNAVAILABLE, "gnuplot failed (status %d): %s", status, last);
}

static bool run(FILE *script, FILE *out, FILE *errors, Err *err) {
    pid_t pid;
    int status = 0;
    /* fork shares places in files: what is in our buffers must be where they say. */
    fflush(out);
    errno = 0;
    if (fflush(script) != 0 || ferror(script) || fseek(script, 0, SEEK_SET) != 0) {
        if (!errno) errno = EIO; /* an earlier write's, which is forgotten */
        return file_fails("a temporary file", "be written", EX_IOERR, err);
    }
    const int why = spawn(&pid, script, out, errors);
    if (why) return no_gnuplot(why, err);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (status) return refused(errors, WIFEXITED(status) ? WEXITSTATUS(status) : 128, err);
    if (fseek(out, 0, SEEK_END) != 0)
        return file_fails("a temporary file", "be read", EX_IOERR, err);
    return ftell(out) > 0 || refused(errors, 0, err);
}

/* A picture, or what there is of it: size bytes, to be freed. */
typedef struct Picture {
    char *data; /* ends with a NUL that is not counted */
    size_t size;
} Picture;

static Picture read_back(FILE *f) {
    const size_t size = (size_t)ftell(f);
    char *data = mem_alloc(size + 1, 1);
    rewind(f);
    return (Picture){data, fread(data, 1, size, f)};
}

/* gnuplot does not look whether its writes succeed: a full disk makes half a picture, status 0. */
static bool is_whole(const Picture *p, Terminal terminal) {
    const char *last = terminal == PNG_FILE   ? "IEND\xae\x42\x60\x82"
                       : terminal == PDF_FILE ? "%%EOF"
                                              : "</svg>";
    const size_t n = strlen(last);
    size_t size = p->size;
    while (size > 0 && p->data[size - 1] == '\n') size--;
    return size >= n && !memcmp(p->data + size - n, last, n);
}

/* What gnuplot makes of the script. */
static bool draw(Plot *p, Terminal terminal, Picture *picture, Err *err) {
    FILE *script = tmpfile(), *out = tmpfile(), *errors = tmpfile();
    bool ok = script && out && errors;
    if (!ok) file_fails("a temporary file", "be made", EX_CANTCREAT, err);
    if (ok) {
        fflush(p->f);
        print_terminal(script, p, terminal);
        fwrite(p->script, 1, p->size, script);
        ok = run(script, out, errors, err);
    }
    if (ok) {
        *picture = read_back(out);
        ok = is_whole(picture, terminal) ||
             err_set(err, EX_IOERR, "gnuplot's picture is cut off; is the disk full?");
        if (!ok) mem_free(picture->data);
    }
    if (script) fclose(script);
    if (out) fclose(out);
    if (errors) fclose(errors);
    return ok;
}

/* ---- files ---- */

static bool keep_script(Plot *p, const char *path, Err *err) {
    AtomicFile a;
    char *name = text_format("%s.gnuplot", path);
    bool ok = atomic_open(&a, name, KIND_GNUPLOT, err);
    if (ok) {
        fflush(p->f);
        print_terminal(a.f, p, terminal_of(path));
        fputs("set output ", a.f);
        text_gnuplot(a.f, path);
        fprintf(a.f, "\n%s", p->script);
        ok = atomic_commit(&a, err);
    }
    mem_free(name);
    return ok;
}

bool plot_write(Plot *p, const char *path, bool keep, Err *err) {
    AtomicFile a;
    Picture picture;
    static const FileKind kinds[] = {
        [SVG_FILE] = KIND_SVG, [PNG_FILE] = KIND_PNG, [PDF_FILE] = KIND_PDF};
    const Terminal terminal = terminal_of(path);
    if (!atomic_open(&a, path, kinds[terminal], err)) return false;
    if ((!keep || keep_script(p, path, err)) && draw(p, terminal, &picture, err)) {
        atomic_write(&a, picture.data, picture.size);
        mem_free(picture.data);
        return atomic_commit(&a, err);
    }
    atomic_abandon(&a);
    return false;
}

/* ---- within a page ---- */

typedef struct Change {
    const char *from, *to;
    bool id; /* a name follows, which becomes ours */
} Change;

/* gnuplot's ids are the same in every picture. Its title, "Gnuplot", would be shown where the mouse
 * rests. */
static const char title[] = "<title>Gnuplot</title>";
static const Change changes[] = {
    {"id=\"", "id=\"", true},
    {"id='", "id='", true},
    {"href='#", "href='#", true},
    {"url(#", "url(#", true},
    {"color=\"black\"", "color=\"inherit\"", false},
    {"fill=\"black\"", "fill=\"currentColor\"", false},
    {"rgb(0,0,0)", "currentColor", false},
    {"rgb(  0,   0,   0)", "currentColor", false},
    {title, "", false},
};

static const Change *change_at(const char *s) {
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (!strncmp(s, changes[i].from, strlen(changes[i].from))) return &changes[i];
    return NULL;
}

static char *embed(const char *svg, const char *prefix) {
    char *text;
    size_t size;
    bool inside = false; /* a tag: what is text stays */
    FILE *f = text_stream(&text, &size);
    const char *start = strstr(svg, "<svg");
    for (const char *s = start ? start : svg; *s;) {
        inside = *s == '<' || (inside && *s != '>');
        const Change *c = inside ? change_at(s) : NULL;
        if (c) {
            fprintf(f, "%s%s", c->to, c->id ? prefix : "");
            s += strlen(c->from);
        } else {
            fputc(*s++, f);
        }
    }
    fclose(f);
    return text;
}

char *plot_svg(Plot *p, const char *prefix, Err *err) {
    Picture picture;
    if (!draw(p, SVG_INLINE, &picture, err)) return NULL;
    char *svg = embed(picture.data, prefix);
    mem_free(picture.data);
    return svg;
}
