#include "viz/viz_write.h"

#include "core/log.h"
#include "viz/viz_html.h"
#include "viz/viz_png.h"

static bool told(const char *path, bool written) {
    if (written) log_info("wrote %s", path);
    return written;
}

/* Of the test set without its name. */
static void begin_name(char *name, size_t size, const Viz *v) {
    const bool test = v->t->split == SPLIT_TEST;
    snprintf(name, size, "viz-%s%s%d", test ? "" : split_names[v->t->split], test ? "" : "-",
             v->index);
}

static bool write_png(const Viz *v, const char *dir, int doc, int part, const char *kind,
                      VizPng *write, Err *err) {
    char name[128], where[CLUSTER_NAME], path[FILE_PATH_MAX];
    const char *which = v->docs == 1 ? "" : doc ? "-b" : "-a";
    begin_name(name, sizeof name, v);
    format_add(name, sizeof name, "%s-%s-%s.png", which,
               clusters_file(where, &v->traces, &v->part[part]), kind);
    return file_in(path, dir, name, err) && told(path, write(v, &v->doc[doc], part, path, err));
}

/* Groups have no affinities. */
static bool write_part(const Viz *v, const char *dir, int doc, int part, Err *err) {
    const VizDoc *d = &v->doc[doc];
    return (!d->width || write_png(v, dir, doc, part, "clusters", viz_png_clusters, err)) &&
           (!d->part[part].affinity ||
            write_png(v, dir, doc, part, "affinity", viz_png_affinity, err));
}

static bool write_page(const Viz *v, const char *dir, Err *err) {
    char name[32], path[FILE_PATH_MAX];
    begin_name(name, sizeof name, v);
    format_add(name, sizeof name, ".html");
    return file_in(path, dir, name, err) && told(path, viz_html(v, path, err));
}

bool viz_write(const Viz *v, const char *dir, Err *err) {
    const bool pictures = v->doc[0].width > 0;
    if (!file_make_dirs(dir, err)) return false;
    for (int i = 0; i < v->docs; i++)
        for (int j = 0; j < v->parts; j++)
            if (!write_part(v, dir, i, j, err)) return false;
    return pictures || write_page(v, dir, err);
}
