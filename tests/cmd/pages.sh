#!/bin/bash
# cast_report: what its pages and lines say of single runs, and what the axes of its curves say of their data.
set -u
. tests/training.sh
report=$bin/cast_report

# A run of two validations; with accuracies of the last weights and of the best ones it is tested.
make_run() { # make_run NAME SEED STEPS SECONDS [LAST BEST]
    local half
    mkdir -p "$tmp/$1"
    cat >"$tmp/$1/config.json" <<END
{ "task": "listops", "data": { "dir": "data/listops" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "attention": { "clusters": 4 } },
  "train": { "steps": $3, "batch": 4, "seed": $2 } }
END
    for half in 1 2; do
        printf '{"kind": "train", "step": %d, "epoch": 1, "seconds": %d, ' $((half * $3 / 2)) $((half * $4 / 2))
        printf '"loss": 2, "accuracy": 0.2, "samples_per_s": 10, "tokens_per_s": 500, "rss_mb": 12.5}\n'
        printf '{"kind": "val", "step": %d, "epoch": 1, "accuracy": 0.3, "loss": 2.1}\n' $((half * $3 / 2))
    done >"$tmp/$1/metrics.jsonl"
    [ $# -gt 4 ] || return 0
    printf '{"kind": "test", "step": %d, "epoch": 1, "which": "%s", "accuracy": %s, "loss": 2.1}\n' \
        "$3" last "$5" "$(($3 / 2))" best "$6" >>"$tmp/$1/metrics.jsonl"
}

# ---- lines, for other programs ----

make_run lines 1 20 4 0.40 0.50
expect 64 'what lines is a table' "lines are no plot" "$report" "$tmp/lines" --what lines --plot "$tmp/x.svg"
"$report" "$tmp/lines" --what lines --format csv >"$tmp/csv" 2>"$tmp/out"
result $? "lines of metrics" "$tmp/out"
lines_of() { # lines_of KIND: steps and accuracies, of the run's file
    sed -nE 's/^\{"kind": "'"$1"'", "step": ([0-9]+),.*"accuracy": ([0-9.]+).*/\1 \2/p' "$tmp/lines/metrics.jsonl"
}
for kind in train val; do
    check "those of $kind" diff <(awk -F, -v k=$kind '$2 == k { print $3, $8 / 100 }' "$tmp/csv") <(lines_of $kind)
done
check "and tests" test "$(grep -cE ',test of (last,20|best,10),' "$tmp/csv")" = 2
sed -n '/"val"/p' "$tmp/lines/metrics.jsonl" >"$tmp/again"
cat "$tmp/again" >>"$tmp/lines/metrics.jsonl"
expect 0 '' "what was done again" "$report" "$tmp/lines" --what lines --format csv
check "stands there once" diff "$tmp/csv" "$tmp/out"

# ---- pages ----

make_run seeds/a 1 20 4 0.40 0.50
make_run seeds/b 2 20 4
# shellcheck disable=SC2016
said='{ printf "%.2f %.2f %.2f\n", $1, $3, $5 }' # a deviation behind each
"$report" "$tmp/seeds" --html "$tmp/page.html" >"$tmp/log" 2>&1
"$report" "$tmp/seeds" >"$tmp/table" 2>&1
"$report" "$tmp/seeds/a" --format csv --columns validation_percent,test_best_percent,test_last_percent >"$tmp/a" 2>&1
equal "a page has a run's figures where the table has them" \
    "$(grep -F "$tmp/seeds/a</td>" "$tmp/page.html" | sed 's/<[^>]*>/ /g' | awk '{ print $6, $7, $8 }')" \
    "$(tail -n 1 "$tmp/a" | tr -d '\r' | awk -F, "$said")"
equal "and as many that are finished: one is not tested" \
    "$(grep -oE '[0-9]+ of [0-9]+ finished<' "$tmp/page.html")" "$(grep -oE '[0-9]+ of [0-9]+' "$tmp/table") finished<"

# ---- axes ----

mkdir "$tmp/bin"
cat >"$tmp/bin/gnuplot" <<'END'
#!/bin/sh
cat >/dev/null
echo '<svg></svg>'
END
chmod +x "$tmp/bin/gnuplot"
axis() { # axis RUN WHAT END: drawn over WHAT, data end at END, in updates or in seconds; labels are where they say
    PATH=$tmp/bin:$PATH "$report" "$tmp/$1" --plot "$tmp/plot.svg" --x "$2" --keep >"$tmp/log" 2>&1
    # shellcheck disable=SC2016
    awk -v end="$3" '
        function is(a, b) { return a > 0.9999 * b && a < 1.0001 * b || a == b }
        /^set xlabel/ { unit = /hours/ ? 3600 : /minutes/ ? 60 : 1 }
        /^set xtics/ { n = split($0, tic, "\047") }
        /^\$train0/ { data = 1; next }
        /^END/ { data = 0 }
        data { last = $1 }
        END {
            for (i = 2; i < n; i += 2) {
                at = tic[i + 1] + 0
                good += is(at, tic[i] * (tic[i] ~ /k$/ ? 1e3 : tic[i] ~ /M$/ ? 1e6 : 1))
            }
            exit !(n > 4 && 2 * good == n - 1 && at > last / 2 && at < 1.0001 * last && is(unit * last, end))
        }' "$tmp/plot.svg.gnuplot"
}
for size in "20 4" "20000 600" "3000000 20000"; do
    read -r steps seconds <<<"$size"
    make_run "long/$steps" 1 "$steps" "$seconds"
    check "an axis of $steps updates" axis "long/$steps" steps "$steps"
    check "of $seconds seconds" axis "long/$steps" time "$seconds"
done
