#include "train/meter.h"

#include <math.h>
#include <string.h>

#include "core/lanes.h"
#include "core/log.h"
#include "core/peak.h"
#include "core/ranks.h"
#include "train/usage.h"

static const double redraw_seconds = 0.1, log_file_seconds = 10;

/* Others may have the processor while a peak is measured, mostly for longer than that takes. */
enum { EARLY_PEAKS = 3, ENOUGH_PEAKS = 6 };
static const double early_apart = 2, peaks_apart = 60;

/* Evaluation has no backward pass: a third of the work. */
static const double forward_share = 1.0 / 3;

/* ---- the progress line ---- */

static Work work_sum(const Work *a, const Work *b) {
    return (Work){a->seconds + b->seconds, a->samples + b->samples, a->tokens + b->tokens,
                  a->flops + b->flops};
}

static double an_update(const Meter *m, const Work *w) {
    return (double)m->conf->batch * m->conf->accumulate * w->seconds / w->samples;
}

/* The update at which training will end, by its number or by the time. */
static double last_update(const Meter *m, const State *s, const Work *w) {
    const double left = m->conf->minutes * 60 - m->seconds;
    const double then = (double)s->update + (left > 0 ? left / an_update(m, w) : 0);
    return m->conf->minutes > 0 && then < (double)m->end ? then : (double)m->end;
}

static double seconds_left(const Meter *m, const State *s, const Work *w) {
    const double end = last_update(m, s, w), every = (double)m->every;
    /* That of the update that was just made is still to come. */
    double passes = floor(end / every) - floor((double)(s->update - 1) / every);
    if (m->end == m->horizon && fmod(end, every) != 0) passes++;
    const double evaluated = passes * m->validation + m->tests;
    return (end - (double)s->update) * an_update(m, w) +
           evaluated * forward_share * w->seconds / w->samples;
}

/* "0.85", "95.2", "1.23 k". */
static const char *format_rate(char *buf, size_t size, double x) {
    if (x >= 99.95) return format_count(buf, size, x);
    snprintf(buf, size, "%.3g", x);
    return buf;
}

/* The runs after this one take what this one takes in all, by their work. */
static void show_place(const Meter *m, const State *s, const Work *w) {
    const MeterAmong *a = m->among;
    const double end = last_update(m, s, w), own = end * an_update(m, w);
    const double done = a->before + a->own * (double)s->update / end;
    const double left = seconds_left(m, s, w) + (a->own > 0 ? own * a->after / a->own : 0);
    char text[96], time[32];
    snprintf(text, sizeof text, "run %d of %d, sweep %.0f %%, %s left; ", a->number, a->count,
             100 * done / (a->before + a->own + a->after),
             format_duration(time, sizeof time, left));
    log_progress_heading(text);
}

/* Of the measured peak. NaN: nobody knows; a share of more than all says that of the peak. */
static double peak_share(const Meter *m, double gflops) {
    return gflops <= m->peak ? gflops / m->peak : NAN;
}

static const char *share_text(char *buf, size_t size, double share) {
    buf[0] = '\0';
    if (!isnan(share)) snprintf(buf, size, " %.0f%%", 100 * share);
    return buf;
}

/* Speeds and means since the report before the last one: steadier than those of a few updates. */
static void draw(Meter *m, const State *s, double lr, double norm, bool keep) {
    const Work w = work_sum(&m->now, &m->before);
    const Tally *t = &s->tally, *b = &m->tally_before;
    const double n = t->answers + b->answers, flops = w.flops / w.seconds;
    const bool bits = m->conf->objective == OBJECTIVE_MASKED;
    const double loss = (t->loss + b->loss) / n / (bits ? log(2) : 1);
    char left[32], samples[32], tokens[32], speed[32], share[16];
    char losses[32] = "-", accuracy[16] = "-";
    if (m->among) show_place(m, s, &w);
    if (n > 0) { /* else all updates since were left out */
        snprintf(losses, sizeof losses, loss < 1000 ? "%.3f" : "%.3g", loss);
        snprintf(accuracy, sizeof accuracy, "%.1f%%", 100 * (t->correct + b->correct) / n);
    }
    log_progress(keep,
                 "%lld/%lld ep %.2f  %s left  %s %s acc %s  lr %.1e |g| %.2g  "
                 "%s/s %s tok/s %sFLOP/s%s",
                 (long long)s->update, (long long)m->end, (double)s->update / (double)m->per_epoch,
                 format_duration(left, sizeof left, seconds_left(m, s, &w)), bits ? "bits" : "loss",
                 losses, accuracy, lr, fabs(norm),
                 format_rate(samples, sizeof samples, w.samples / w.seconds),
                 format_count(tokens, sizeof tokens, w.tokens / w.seconds),
                 format_count(speed, sizeof speed, flops),
                 share_text(share, sizeof share, peak_share(m, flops * 1e-9)));
}

static void show(Meter *m, const State *s, double lr, double norm) {
    const double now = clock_seconds();
    const bool keep =
        s->update % m->conf->log_every == 0 && (m->kept == 0 || now - m->kept >= log_file_seconds);
    if (!keep && now - m->shown < redraw_seconds) return;
    draw(m, s, lr, norm, keep);
    m->shown = now;
    if (keep) m->kept = now;
}

/* ---- metrics.jsonl, and TensorBoard's ---- */

static void begin_line(Meter *m, const char *kind, int64_t update) {
    metrics_begin(&m->file);
    metrics_text(&m->file, "kind", kind);
    metrics_int(&m->file, "step", update);
    metrics_real(&m->file, "epoch", (double)update / (double)m->per_epoch);
}

static void begin(Meter *m, const char *kind, int64_t update) {
    begin_line(m, kind, update);
    events_begin(&m->events, update);
}

/* For both; "train/loss" is "loss" in the line of kind "train". */
static void scalar(Meter *m, const char *tag, double value) {
    metrics_real(&m->file, strchr(tag, '/') + 1, value);
    events_scalar(&m->events, tag, value);
}

static void scalars(Meter *m, const char *group, const Score *score) {
    char tag[64];
    snprintf(tag, sizeof tag, "%s/accuracy", group);
    scalar(m, tag, score->accuracy);
    snprintf(tag, sizeof tag, "%s/loss", group);
    scalar(m, tag, score->loss);
    if (m->conf->objective != OBJECTIVE_MASKED) return;
    snprintf(tag, sizeof tag, "%s/bits", group);
    scalar(m, tag, score->loss / log(2));
}

/* A full disk does not stop training; it is told once. */
static void tell_end(bool *failing, bool ok, const char *later, const Err *err) {
    if (!ok && !*failing) log_warn("%s; training goes on, and %s", err->text, later);
    *failing = !ok;
}

static void end_line(Meter *m) {
    Err err;
    tell_end(&m->failing, metrics_end(&m->file, &err), "this line is tried again with the next",
             &err);
}

static void tell_events(Meter *m, bool ok, const Err *err) {
    tell_end(&m->events_failing, ok, "later lines are tried", err);
}

static void end(Meter *m) {
    Err err;
    end_line(m);
    tell_events(m, events_end(&m->events, &err), &err);
}

static void report(Meter *m, State *s, double lr) {
    const Work spent = work_sum(&m->now, &m->before);
    const Tally *t = &s->tally;
    const Work *w = &m->now;
    const double gflops = w->flops / w->seconds * 1e-9;
    const Usage usage = usage_read();
    if (usage.own > m->most_own) m->most_own = usage.own;
    begin(m, "train", s->update);
    const Score score = {t->correct / t->answers, t->loss / t->answers};
    scalars(m, "train", &score);
    scalar(m, "train/lr", lr);
    scalar(m, "train/grad_norm", t->norm / t->updates);
    scalar(m, "train/samples_per_s", w->samples / w->seconds);
    metrics_real(&m->file, "tokens_per_s", w->tokens / w->seconds);
    metrics_real(&m->file, "gflops", gflops);
    metrics_real(&m->file, "peak_share", peak_share(m, gflops));
    metrics_real(&m->file, "seconds", m->seconds);
    metrics_real(&m->file, "seconds_left", seconds_left(m, s, &spent));
    metrics_real(&m->file, "rss_mb", m->most_own * 1e-6);
    metrics_real(&m->file, "mapped_mb", usage.mapped * 1e-6);
    end(m);
    m->tally_before = s->tally;
    m->before = m->now;
    s->tally = (Tally){0};
    m->now = (Work){0};
}

void meter_update(Meter *m, State *s, const Work *work, double lr, double norm) {
    m->now = work_sum(&m->now, work);
    m->seconds += work->seconds;
    show(m, s, lr, norm);
    if (s->update % m->conf->log_every == 0) report(m, s, lr);
    if (m->peaks < ENOUGH_PEAKS) meter_peak(m);
}

void meter_peak(Meter *m) {
    const double now = clock_seconds();
    if (m->peak > 0 &&
        now - m->peak_measured < (m->peaks < EARLY_PEAKS ? early_apart : peaks_apart))
        return;
    const double peak = ranks_times(lanes_threads()) * peak_gflops(lanes_threads());
    if (peak > m->peak) m->peak = peak;
    m->peak_measured = now;
    m->peaks++;
}

bool meter_time_is_up(const Meter *m) {
    return m->conf->minutes > 0 && m->seconds >= m->conf->minutes * 60;
}

static void begin_mark(Meter *m, const char *kind, int64_t update) {
    begin_line(m, kind, update);
    metrics_real(&m->file, "seconds", m->seconds);
}

void meter_mark(Meter *m, const char *kind, int64_t update) {
    begin_mark(m, kind, update);
    end_line(m);
}

void meter_patience(Meter *m, const State *s) {
    begin_mark(m, "patience", s->update);
    metrics_int(&m->file, "stale", s->stale);
    end_line(m);
}

void meter_skip(Meter *m, const State *s) {
    begin_mark(m, "skip", s->update);
    metrics_real(&m->file, "skipped", s->guard.skipped);
    metrics_real(&m->file, "in_a_row", s->guard.in_a_row);
    end_line(m);
}

/* Speeds and means begin anew, as in a process that goes on from there. */
void meter_rollback(Meter *m, const State *s, int64_t from) {
    Err err;
    begin_mark(m, "rollback", s->update);
    metrics_int(&m->file, "from", from);
    metrics_real(&m->file, "rollbacks", s->guard.rollbacks);
    metrics_real(&m->file, "rate", s->guard.rate);
    end_line(m);
    m->now = m->before = (Work){0};
    m->tally_before = (Tally){0};
    if (!events_go_back(&m->events, s->update, &err)) tell_events(m, false, &err);
}

void meter_changes(Meter *m, int64_t update, const Identity *was, const Identity *now) {
    for (int i = 0; i < IDENTITY_PARTS; i++) {
        if (!identity_differs(was, now, i)) continue;
        begin_line(m, "change", update);
        metrics_text(&m->file, "what", identity_names[i]);
        metrics_text(&m->file, "was", was->part[i]);
        metrics_text(&m->file, "now", now->part[i]);
        end_line(m);
    }
}

void meter_validation(Meter *m, int64_t update, const Score *score, int count, double seconds) {
    begin(m, "val", update);
    scalars(m, "val", score);
    metrics_int(&m->file, "count", count);
    metrics_real(&m->file, "seconds", seconds);
    end(m);
}

void meter_test(Meter *m, const char *which, int64_t update, const Score *score, int count,
                const char *correct) {
    begin(m, "test", update);
    metrics_text(&m->file, "which", which);
    scalars(m, strcmp(which, "last") == 0 ? "test_last" : "test_best", score);
    metrics_int(&m->file, "count", count);
    if (correct) metrics_text(&m->file, "correct", correct);
    end(m);
}
