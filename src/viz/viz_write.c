#include "viz/viz_write.h"

#include "core/log.h"
#include "viz/viz_html.h"
#include "viz/viz_png.h"

static bool told(const char *path, bool written) {
    if (written) log_info("wrote %s", path);
    return written;
}

static bool write_png(const Viz *v, const char *dir, int doc, int layer, const char *kind,
                      VizPng *write, Err *err) {
    char name[64], path[FILE_PATH_MAX];
    const char *which = v->docs == 1 ? "" : doc ? "-b" : "-a";
    snprintf(name, sizeof name, "viz-%d%s-layer%d-%s.png", v->index, which, layer, kind);
    return file_in(path, dir, name, err) && told(path, write(v, &v->doc[doc], layer, path, err));
}

static bool write_page(const Viz *v, const char *dir, Err *err) {
    char name[32], path[FILE_PATH_MAX];
    snprintf(name, sizeof name, "viz-%d.html", v->index);
    return file_in(path, dir, name, err) && told(path, viz_html(v, path, err));
}

bool viz_write(const Viz *v, const char *dir, Err *err) {
    const bool pictures = v->doc[0].width > 0;
    if (!file_make_dirs(dir, err)) return false;
    for (int i = 0; i < v->docs; i++)
        for (int l = v->from; l < v->to; l++)
            if ((pictures && !write_png(v, dir, i, l, "clusters", viz_png_clusters, err)) ||
                !write_png(v, dir, i, l, "affinity", viz_png_affinity, err))
                return false;
    return pictures || write_page(v, dir, err);
}
