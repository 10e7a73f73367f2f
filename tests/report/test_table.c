#include "report/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/mem.h"
#include "io/text.h"

static Table sample(void) {
    Table t = {0};
    table_column(&t, "na|me", "name", COLUMN_TEXT, 0);
    table_column(&t, "x, %", "x_percent", COLUMN_MARKED, 1);
    table_column(&t, "done", "done", COLUMN_SHARE, 0);
    table_column(&t, "n", "n", COLUMN_NUMBER, SIGNIFICANT + 3);
    Cell *c = table_row(&t);
    cell_text(&c[0], "a,\"|\"");
    c[1].mean = 52.25;
    c[1].sd = 0.5;
    snprintf(c[1].mark, sizeof c[1].mark, "DG");
    c[2].mean = 2;
    c[2].sd = 3;
    c[3].mean = 1234.5;
    c = table_row(&t);
    c[1].mean = 7;
    snprintf(c[1].mark, sizeof c[1].mark, "A");
    table_row(&t);
    table_note(&t, mem_strdup("50 % of <all>"));
    return t;
}

static void written(TableFormat format, const char *wanted) {
    char *text;
    size_t size;
    Table t = sample();
    FILE *f = text_stream(&text, &size);
    table_write(&t, format, f);
    fclose(f);
    assert_string_equal(text, wanted);
    mem_free(text);
    table_free(&t);
}

static void test_formats(void **state) {
    (void)state;
    written(TABLE_MD, "| na\\|me |            x, % |   done |    n |\n"
                      "| ------ | --------------: | -----: | ---: |\n"
                      "| a,\"\\|\" | 52.2 ± 0.5 [DG] | 2 of 3 | 1234 |\n"
                      "| -      |         7.0 [A] |      - |    - |\n"
                      "| -      |               - |      - |    - |\n"
                      "\n50 % of &lt;all&gt;\n");
    written(TABLE_LATEX, "% \\usepackage{booktabs}\n\\begin{tabular}{lrrr}\n\\toprule\n"
                         "na\\textbar{}me & x, \\% & done & n \\\\\n\\midrule\n"
                         "a,''\\textbar{}'' & $52.2 \\pm 0.5$ [DG] & 2 of 3 & 1234 \\\\\n"
                         "- & 7.0 [A] & - & - \\\\\n- & - & - & - \\\\\n"
                         "\\bottomrule\n\\end{tabular}\n% 50 % of <all>\n");
    written(TABLE_CSV, "name,x_percent,x_percent_sd,x_percent_marks,done,done_of,n\r\n"
                       "\"a,\"\"|\"\"\",52.25,0.5,DG,2,3,1234.5\r\n,7,,A,,,\r\n,,,,,,\r\n");
    written(TABLE_HTML,
            "<div class=\"wide\"><table>\n<thead><tr><th>na|me</th><th class=\"n\">x, %</th>"
            "<th class=\"n\">done</th><th class=\"n\">n</th></tr></thead>\n<tbody>\n"
            "<tr><td class=\"t\">a,&quot;|&quot;</td><td class=\"n\">52.2 ± 0.5 [DG]</td>"
            "<td class=\"n\">2 of 3</td><td class=\"n\">1234</td></tr>\n"
            "<tr><td class=\"t\">-</td><td class=\"n\">7.0 [A]</td><td class=\"n\">-</td>"
            "<td class=\"n\">-</td></tr>\n"
            "<tr><td class=\"t\">-</td><td class=\"n\">-</td><td class=\"n\">-</td>"
            "<td class=\"n\">-</td></tr>\n</tbody></table></div>\n"
            "<p class=\"note\">50 % of &lt;all&gt;</p>\n");
}

static void number(double x, int digits, const char *wanted) {
    char buf[64];
    assert_string_equal(table_number(buf, sizeof buf, x, digits), wanted);
}

static void test_numbers(void **state) {
    (void)state;
    number(0.012345, SIGNIFICANT + 3, "0.0123");
    number(12.345, SIGNIFICANT + 3, "12.3");
    number(123456, SIGNIFICANT + 3, "123456");
    number(0, SIGNIFICANT + 3, "0.00");
    number(1e-30, SIGNIFICANT + 3, "0.000000000000");
    number(-12.5, 1, "-12.5");
    number(NAN, 2, "-");
    number(INFINITY, 2, "-");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
