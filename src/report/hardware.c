#include "report/hardware.h"

const char hardware_note[] =
    "machines: runs of one task have other processors, threads or ranks (env.json): samples/s, "
    "memory and hours are not of one machine.";
const char hardware_timed_note[] =
    "machines: of equal minutes, but not of equal machines: with train.minutes, runs of one task "
    "have other processors, threads or ranks (env.json), and the faster make more updates.";

enum { RANKS = 2 };
static const char *const traits[HARDWARE_TRAITS] = {"cpu", "threads", [RANKS] = "ranks"};

/* Of a single rank env.json does not tell. */
static const cJSON *trait_of(const cJSON *process, int i) {
    static const cJSON one = {.type = cJSON_Number, .valueint = 1, .valuedouble = 1};
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(process, traits[i]);
    return x || i != RANKS || !cJSON_HasObjectItem(process, "threads") ? x : &one;
}

static void add_process(Hardware *h, const cJSON *process) {
    for (int i = 0; i < HARDWARE_TRAITS; i++) {
        const cJSON *x = trait_of(process, i);
        if (!h->first[i]) h->first[i] = x;
        h->differs |= x && !cJSON_Compare(x, h->first[i], true);
    }
}

/* A run that went on elsewhere is of both machines. */
void hardware_add(Hardware *h, const Group *g) {
    for (int i = 0; i < g->n; i++) {
        const cJSON *env = g->run[i]->env, *process;
        add_process(h, env);
        cJSON_ArrayForEach(process, cJSON_GetObjectItemCaseSensitive(env, "earlier")) {
            add_process(h, process);
        }
        h->timed |= run_number(g->run[i], "train.minutes", 0) > 0;
    }
}
