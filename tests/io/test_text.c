#include "io/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/mem.h"

static const char nasty[] = "a|b&c_d%<x>\"y\"\n{$`\\~^#['";

static void becomes(TextWriter *write, const char *s, const char *wanted) {
    char *text = text_of(write, s);
    assert_string_equal(text, wanted);
    mem_free(text);
}

static void test_escapes(void **state) {
    (void)state;
    becomes(text_plain, nasty, "a|b&c_d%<x>\"y\" {$`\\~^#['");
    becomes(text_markdown, nasty, "a\\|b&amp;c_d%&lt;x&gt;\"y\" {\\$\\`\\\\\\~^#\\['");
    becomes(text_markdown, "_a_ d_ff *b*", "\\_a\\_ d_ff \\*b\\*");
    becomes(text_latex, nasty,
            "a\\textbar{}b\\&c\\_d\\%\\textless{}x\\textgreater{}''y'' \\{\\$`\\textbackslash{}"
            "\\textasciitilde{}\\textasciicircum{}\\#{[}'");
    becomes(text_csv, nasty, "\"a|b&c_d%<x>\"\"y\"\" {$`\\~^#['\"");
    becomes(text_csv, "plain", "plain");
    becomes(text_csv, "a,b", "\"a,b\"");
    becomes(text_html, nasty, "a|b&amp;c_d%&lt;x&gt;&quot;y&quot; {$`\\~^#[&#39;");
    becomes(text_gnuplot, "a'b\"c`d\\e@f\n", "\"a\\047b\\042c\\140d\\134e\\100f \"");
}

/* As a spreadsheet would compute them; and back. */
static void test_formulas(void **state) {
    static const struct {
        const char *text, *csv;
    } rows[] = {
        {"=1+2", "'=1+2"},
        {"+cmd|'/c'!A1", "'+cmd|'/c'!A1"},
        {"-2-3", "'-2-3"},
        {"@SUM(A1)", "'@SUM(A1)"},
        {"\t=1", "' =1"},
        {"\v=1", "' =1"},
        {"\x7f\xc2\x85 =1", "'   =1"},
        {"\xc2=1", "\xef\xbf\xbd=1"},
        {"\r=1", "\"' =1\""},
        {" =1", "\"' =1\""},
        {"=a,\"b\"", "\"'=a,\"\"b\"\"\""},
        {"a;=1", "\"a;=1\""},
        {"-0.5", "-0.5"},
        {"+1e-3", "+1e-3"},
        {"-inf", "'-inf"},
        {"-", "'-"},
        {"a=b", "a=b"},
        {"'a", "'a"},
        {"'=1", "''=1"},
        {"", ""},
        {"-0x1p3", "'-0x1p3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        becomes(text_csv, rows[i].text, rows[i].csv);
    assert_string_equal(text_of_csv("'=1+2"), "=1+2");
    assert_string_equal(text_of_csv("''=1"), "'=1");
    assert_string_equal(text_of_csv("'a"), "'a");
    assert_string_equal(text_of_csv("-0.5"), "-0.5");
}

static void test_other_bytes(void **state) {
    (void)state;
    becomes(text_html, "\xc3\xa9\xff\x1b[0m", "\xc3\xa9\xef\xbf\xbd [0m");
    TextWriter *const writers[] = {text_plain, text_markdown, text_latex, text_csv, text_html};
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
        becomes(writers[i],
                "a\xc2\x9b"
                "b\177c\xc2\xa0",
                "a b c\xc2\xa0");
    becomes(text_plain, "", "");
    assert_int_equal(text_width("\xc3\xa9\xff"), 2);
    assert_int_equal(text_field("\xc3\xa9", 5), 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_other_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
