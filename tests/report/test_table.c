#include "report/formats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
    table_write(&t, &(TableStyle){.format = format, .letters = 100, .latex = {.width = 1000}}, f);
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
    written(TABLE_LATEX, "% \\usepackage{booktabs}\n\\begin{tabular}{@{}lrrr@{}}\n\\toprule\n"
                         "na\\textbar{}me & x, \\% & done & n \\\\\n\\midrule\n"
                         "a,''\\textbar{}'' & $52.2 \\pm 0.5$ [DG] & 2 of 3 & 1234 \\\\\n"
                         "- & 7.0 [A] & - & - \\\\\n- & - & - & - \\\\\n"
                         "\\bottomrule\n\\end{tabular}\n% 50 % of <all>\n");
    written(TABLE_CSV, "name,x_percent,x_percent_sd,x_percent_marks,done,done_of,n\r\n"
                       "\"a,\"\"|\"\"\",52.25,0.5,DG,2,3,1234.5\r\n,7,,A,,,\r\n,,,,,,\r\n");
    written(TABLE_HTML,
            "<div class=\"wide\"><table>\n<thead><tr><th class=\"t\">na|me</th><th class=\"n\">x, "
            "%</th>"
            "<th class=\"n\">done</th><th class=\"n\">n</th></tr></thead>\n<tbody>\n"
            "<tr><td class=\"t\">a,&quot;|&quot;</td><td class=\"n\">52.2 ± 0.5 [DG]</td>"
            "<td class=\"n\">2 of 3</td><td class=\"n\">1234</td></tr>\n"
            "<tr><td class=\"t\">-</td><td class=\"n\">7.0 [A]</td><td class=\"n\">-</td>"
            "<td class=\"n\">-</td></tr>\n"
            "<tr><td class=\"t\">-</td><td class=\"n\">-</td><td class=\"n\">-</td>"
            "<td class=\"n\">-</td></tr>\n</tbody></table></div>\n"
            "<p class=\"note\">50 % of &lt;all&gt;</p>\n");
}

/* ---- rows of two tasks, the best of each ---- */

static Table results(void) {
    static const struct {
        const char *task, *model;
        double mean, sd, seconds;
        bool apart;
    } rows[] = {{"image", "cast", 42.541, 0.5, 3, false},
                {"image", "full", 42.539, NAN, 2, false},
                {"image", "other", 40, NAN, 2, false},
                {"image", "larger", 50, NAN, 9, true},
                {"text", "cast", 60, NAN, 1, false}};
    Table t = {0};
    table_column(&t, "task", "task", COLUMN_TEXT, 0);
    table_column(&t, "model", "model", COLUMN_TEXT, 0);
    table_column(&t, "test of best, %", "test", COLUMN_SPREAD, 2)->best = BEST_MOST;
    Column *c = table_column(&t, "seconds", "seconds", COLUMN_NUMBER, 0);
    c->best = BEST_LEAST;
    c->spare = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Cell *cell = table_row(&t);
        cell_text(&cell[0], rows[i].task);
        cell_text(&cell[1], rows[i].model);
        cell[2].mean = rows[i].mean;
        cell[2].sd = rows[i].sd;
        cell[2].apart = rows[i].apart;
        cell[3].mean = rows[i].seconds;
    }
    return t;
}

/* What looks the same is as good; what is apart, or has no rival, is not the best. */
static void test_best(void **state) {
    (void)state;
    Table t = results();
    static const bool best[5][4] = {{0, 0, 1, 0}, {0, 0, 1, 1}, {0, 0, 0, 1}};
    for (int row = 0; row < 5; row++)
        for (int c = 0; c < 4; c++) assert_int_equal(table_is_best(&t, row, c), best[row][c]);
    table_free(&t);
}

static void shown(Table *t, const TableStyle *style, const char *wanted) {
    char *text;
    size_t size;
    FILE *f = text_stream(&text, &size);
    table_write(t, style, f);
    fclose(f);
    assert_string_equal(text, wanted);
    mem_free(text);
}

static void test_latex_float(void **state) {
    (void)state;
    Table t = results();
    Err err;
    assert_true(table_select(&t, "model,test", &err));
    const TableStyle style = {
        .format = TABLE_LATEX,
        .latex = {.width = 86, .caption = "100 %", .label = "tab:a_b", .across = true}};
    shown(
        &t, &style,
        "% \\usepackage{booktabs}\n\\begin{table*}\n\\centering\n\\caption{100 \\%}\n"
        "\\label{tab:a_b}\n\\begin{tabular}{@{}lr@{}}\n\\toprule\n"
        "model & test of best, \\% \\\\\n\\midrule\n"
        "cast & $\\mathbf{42.54} \\pm 0.50$ \\\\\nfull & \\textbf{42.54} \\\\\nother & 40.00 \\\\\n"
        "larger & 50.00 \\\\\ncast & 60.00 \\\\\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table*}\n");
    table_free(&t);
}

/* A line has room for three of the columns. */
static void test_terminal(void **state) {
    (void)state;
    Table t = results();
    shown(&t, &(TableStyle){.format = TABLE_TERMINAL, .letters = 30},
          "                    test of\n"
          "task   model        best, %\n"
          "-----  ------  ------------\n"
          "image  cast    42.54 ± 0.50\n"
          "image  full           42.54\n"
          "image  other          40.00\n"
          "image  larger         50.00\n"
          "text   cast           60.00\n"
          "\nnot shown: seconds. --columns\nchooses, --format md shows\nall.\n");
    table_free(&t);
}

/* A column that has no room even alone takes none from those that are spared before it. */
static void test_terminal_of_a_wide_column(void **state) {
    (void)state;
    Table t = {0};
    table_column(&t, "model", "model", COLUMN_TEXT, 0);
    table_column(&t, "init", "train.init", COLUMN_TEXT, 0)->spare = SPARE_MOST;
    table_column(&t, "dropout", "model.dropout", COLUMN_NUMBER, 0)->spare = SPARE_MOST;
    table_column(&t, "epochs", "epochs", COLUMN_NUMBER, 0)->spare = 1;
    table_column(&t, "hours", "hours", COLUMN_NUMBER, 0)->spare = 2;
    Cell *c = table_row(&t);
    cell_text(c++, "cast");
    cell_text(c++, "runs/a-name-of-more-letters-than-the-line-has/last.safetensors");
    for (int i = 1; i <= 3; i++) (c++)->mean = i;
    shown(&t, &(TableStyle){.format = TABLE_TERMINAL, .letters = 22},
          "model  dropout  hours\n"
          "-----  -------  -----\n"
          "cast         1      3\n"
          "\nnot shown: init;\nepochs. --columns\nchooses, --format md\nshows all.\n");
    table_free(&t);
}

static void refused(const char *list, const char *wanted) {
    Table t = results();
    Err err;
    assert_false(table_select(&t, list, &err));
    assert_int_equal(err.code, EX_USAGE);
    assert_non_null(strstr(err.text, wanted));
    table_free(&t);
}

static void test_select(void **state) {
    (void)state;
    Table t = results();
    Err err;
    assert_true(table_select(&t, "seconds,model", &err));
    assert_int_equal(t.n, 2);
    assert_string_equal(t.columns[0].key, "seconds");
    assert_string_equal(table_at(&t, 2, 1)->text, "other");
    assert_true(table_at(&t, 3, 0)->mean == 9);
    table_free(&t);
    refused("modle", "did you mean 'model'");
    refused("model,model", "twice");
    refused("", "names of columns");
    refused(",", "names of columns");
}

/* `wanted`: each row's seconds. */
static void sorted(const char *name, const char *wanted) {
    Table t = results();
    Err err;
    char got[16] = "";
    t.columns[0].hidden = true;
    cell_text(&t.cells[2 * t.n + 2], "not run");
    t.cells[4 * t.n + 3].mean = NAN;
    cell_text(&t.cells[4 * t.n + 3], "1");
    cell_text(&t.cells[3 * t.n + 1], "");
    if (!table_sort(&t, name, &err)) fail_msg("%s", err.text);
    assert_string_equal(table_at(&t, 0, 0)->text, *wanted == '1' ? "text" : "image");
    table_hide(&t);
    assert_true(t.n == 3 && t.rows == 5 && !t.chosen && !strcmp(t.columns[0].key, "model"));
    for (int i = 0; i < t.rows; i++) {
        const Cell *c = table_at(&t, i, 2);
        got[i] = (char)('0' + (c->text ? 1 : (int)c->mean));
    }
    assert_string_equal(got, wanted);
    table_free(&t);
}

/* The best first, though it is apart; what has no number, or no name, last; else as they were. */
static void test_sort(void **state) {
    (void)state;
    Table t = results();
    Err err;
    sorted("test", "19322");
    sorted("test of best, %", "19322");
    sorted("seconds", "12239");
    sorted("model", "31229");
    sorted("task", "32291");
    assert_false(table_sort(&t, "modle", &err));
    assert_non_null(
        strstr(err.text, "--sort: the table has no column 'modle'; did you mean 'model'"));
    assert_false(table_sort(&t, "model,task", &err));
    table_free(&t);
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
    number(9.996, SIGNIFICANT + 3, "10.0");
    number(99.96, SIGNIFICANT + 3, "100");
    number(0.9996, SIGNIFICANT + 3, "1.00");
    number(-12.5, 1, "-12.5");
    number(-0.004, 2, "0.00");
    number(-0.006, 2, "-0.01");
    number(-1e-30, SIGNIFICANT + 3, "0.000000000000");
    number(NAN, 2, "-");
    number(INFINITY, 2, "-");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_latex_float),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_terminal_of_a_wide_column),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
