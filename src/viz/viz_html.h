/* Clusters of a text as a page that needs nothing but itself. */
#ifndef VIZ_VIZ_HTML_H
#define VIZ_VIZ_HTML_H

#include "viz/viz.h"

/* EX_CANTCREAT, EX_IOERR. */
bool viz_html(const Viz *v, const char *path, Err *err);

#endif
