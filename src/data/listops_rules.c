#include "data/listops_rules.h"

#include <string.h>

#include "core/log.h"
#include "core/option.h"

enum { MOST_ARGS = 100 };

const ListopsRules listops_lra = {.depth = LISTOPS_NESTING,
                                  .shortest = 501,
                                  .longest = 1999,
                                  .ops = {LISTOPS_MIN, LISTOPS_MAX, LISTOPS_MED, LISTOPS_SM},
                                  .nops = 4,
                                  .least_args = 2,
                                  .most_args = 10};

static const char *name_of(int op) { return listops_words[op] + 1; } /* without its bracket */

static bool take_range(const char *option, const char *text, int least, int most, int *from,
                       int *to, Err *err) {
    char a[16];
    const char *dots = strstr(text, "..");
    if (!dots || (size_t)(dots - text) >= sizeof a)
        return err_set(err, EX_USAGE, "--%s: expected A..B, as in %d..%d, got '%s'", option, *from,
                       *to, text);
    snprintf(a, sizeof a, "%.*s", (int)(dots - text), text);
    if (!option_int(option, a, least, most, from, err) ||
        !option_int(option, dots + 2, least, most, to, err))
        return false;
    return *from <= *to ||
           err_set(err, EX_USAGE, "--%s: %d is more than %d: the smaller one comes first", option,
                   *from, *to);
}

/* In the order of ids, whatever the list's, so that the same set has the same bits. */
static bool take_ops(ListopsRules *rules, const char *text, Err *err) {
    bool wanted[LISTOPS_CLOSE] = {false};
    for (const char *s = text; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) {
        const size_t n = strcspn(s, ",");
        int op = LISTOPS_MIN;
        while (op < LISTOPS_CLOSE && !(strlen(name_of(op)) == n && !strncmp(s, name_of(op), n)))
            op++;
        if (op == LISTOPS_CLOSE)
            return err_set(err, EX_USAGE, "--ops: '%.*s' is none of MIN, MAX, MED and SM",
                           n < 32 ? (int)n : 32, s);
        wanted[op] = true;
    }
    rules->nops = 0;
    for (int op = LISTOPS_MIN; op < LISTOPS_CLOSE; op++)
        if (wanted[op]) rules->ops[rules->nops++] = op;
    return true;
}

/* An operator at every place that may have one. */
static bool can_be_long_enough(const ListopsRules *rules) {
    double tokens = 1;
    for (int i = 0; i < rules->depth; i++) tokens = 2 + rules->most_args * tokens;
    return tokens >= rules->shortest;
}

/* The shortest are a digit, or an operator on digits. */
static bool check(const ListopsRules *rules, Err *err) {
    char text[LISTOPS_RULES];
    const int least = 2 + rules->least_args;
    if (can_be_long_enough(rules) && (rules->longest >= least || rules->shortest == 1)) return true;
    return err_set(err, EX_USAGE, "--length: no expression is like that: %s",
                   listops_describe(text, rules));
}

bool listops_rules(ListopsRules *rules, const TaskRequest *r, Err *err) {
    const char *depth = task_setting(r, "depth"), *length = task_setting(r, "length"),
               *ops = task_setting(r, "ops"), *args = task_setting(r, "args");
    *rules = listops_lra;
    return (!depth || option_int("depth", depth, 1, LISTOPS_NESTING, &rules->depth, err)) &&
           (!length || take_range("length", length, 1, LISTOPS_LONGEST, &rules->shortest,
                                  &rules->longest, err)) &&
           (!ops || take_ops(rules, ops, err)) &&
           (!args ||
            take_range("args", args, 1, MOST_ARGS, &rules->least_args, &rules->most_args, err)) &&
           check(rules, err);
}

bool listops_is_lra(const ListopsRules *a) {
    const ListopsRules *b = &listops_lra;
    return a->depth == b->depth && a->shortest == b->shortest && a->longest == b->longest &&
           a->nops == b->nops && a->least_args == b->least_args && a->most_args == b->most_args;
}

const char *listops_describe(char buf[LISTOPS_RULES], const ListopsRules *rules) {
    snprintf(buf, LISTOPS_RULES, "depth %d, %d to %d tokens,", rules->depth, rules->shortest,
             rules->longest);
    for (int i = 0; i < rules->nops; i++)
        format_add(buf, LISTOPS_RULES, " %s", name_of(rules->ops[i]));
    format_add(buf, LISTOPS_RULES, " of %d to %d arguments", rules->least_args, rules->most_args);
    return buf;
}
