/* The ways of writing a table. */
#ifndef REPORT_FORMATS_H
#define REPORT_FORMATS_H

#include "report/latex.h"

typedef enum TableFormat {
    TABLE_MD,
    TABLE_LATEX,
    TABLE_CSV, /* RFC 4180 */
    TABLE_HTML,
    TABLE_TERMINAL
} TableFormat;

typedef struct TableStyle {
    TableFormat format;
    int letters;      /* of a terminal's line */
    LatexStyle latex; /* of TABLE_LATEX */
} TableStyle;
void table_write(const Table *t, const TableStyle *style, FILE *f);

#endif
