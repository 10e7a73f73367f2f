#!/bin/bash
# Masked training from the command line: what it says, what may be done with what it made, and what is refused.
set -u
. tests/training.sh
make_data "$tmp/data" listops 60 9 11 60
cat >"$tmp/tiny.json" <<EOF
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60, "attention": { "clusters": 4 } },
  "train": { "objective": "masked", "steps": 20, "batch": 4, "lr": 1e-2, "eval_every": 5 } }
EOF
train=("$bin/cast_train" "$tmp/tiny.json" --threads 1)

expect 0 'validation accuracy [0-9.]+ %, [0-9.]+ bits a token' "trains, in bits a token" "${train[@]}" --out "$tmp/run"
check "a share of its own" grep -q '"mask": *0.1' "$tmp/run/config.json"
line=$(grep '^test accuracy of best' "$tmp/out")
sed -n 's/.*"loss": \([^,]*\), "bits": \([^,]*\),.*/\1 \2/p' "$tmp/run/metrics.jsonl" >"$tmp/bits"
# shellcheck disable=SC2016
check "bits are loss / ln 2" awk '{ e = $2 - $1 / log(2); if (e * e > 1e-12) bad = 1 } END { exit bad || NR < 5 }' "$tmp/bits"
told=$(sed -nE 's/^10\/20 ep .* bits ([0-9.]+) acc .*/\1/p' "$tmp/out")
bits=$(sed -nE 's/.*"train", "step": 10, .*"bits": ([^,]+),.*/\1/p' "$tmp/run/metrics.jsonl")
check "so are those of progress" awk -v a="$told" -v b="$bits" 'BEGIN { exit !(b > 0 && (a - b) ^ 2 < 1e-6) }'
expect 0 'as cast_train measured it' "cast_eval: the same again" "$bin/cast_eval" "$tmp/run"
check "to the digit" grep -qxF "$line" "$tmp/out"
check "without classes" bash -c "! grep -q 'confusion\|always' '$tmp/out'"
check "and without a standard error" bash -c "! grep -q '±' '$tmp/out'"
for key in seed=3 mask=0.3; do
    expect 0 'bits a token' "of other masks, $key" "$bin/cast_eval" "$tmp/run" train.$key
    check "which is another measurement" test "$(grep -c 'measured' "$tmp/out")" = 0
done
expect 0 '"bits":' "as JSON" "$bin/cast_eval" "$tmp/run" --json
check "there, too" bash -c "! grep -q accuracy_error '$tmp/out'"
expect 64 'it knows no classes' "no predictions" "$bin/cast_eval" "$tmp/run" --predict "$tmp/x.csv"
check "nothing is written" test ! -e "$tmp/x.csv"
expect 0 'viz-2.html' "cast_viz" "$bin/cast_viz" "$tmp/run" --index 2 --out "$tmp/viz"
check "says how many were guessed" grep -q 'of [0-9]* masked tokens guessed' "$tmp/viz/viz-2.html"

# Of each example its tokens, and how many of the masked ones were guessed; the figures again, from these.
for ((i = 0; i < 11; i++)); do
    "$bin/cast_viz" "$tmp/run" --index $i --out "$tmp/viz" 2>&1 |
        sed -nE 's/^example.* ([0-9]+) of ([0-9]+) masked .*/\1 \2/p'
    sed -nE 's/^<p>([0-9]+) tokens;.*/\1/p' "$tmp/viz/viz-$i.html"
done | paste -d ' ' - - >"$tmp/guessed"
"$bin/cast_eval" "$tmp/run" --json | tr '{' '\n' |
    sed -nE 's/^"from":([0-9]+),"to":([0-9]+),.*"accuracy":([^}]+).*/\1 \2 \3/p' >"$tmp/bins"
"$bin/cast_eval" "$tmp/run" | awk '/^by length/ { table = 1 } table && / to / { print $1, $3, $5 / 100 }' >>"$tmp/bins"
check "by length, twice" test "$(wc -l <"$tmp/bins")" = 10
# shellcheck disable=SC2016
check "it is a share of the masked tokens" awk '
    FILENAME == ARGV[1] { right[NR] = $1; of[NR] = $2; tokens[NR] = $3; n = NR; next }
    { a = b = 0; for (i = 1; i <= n; i++) if (tokens[i] >= $1 && tokens[i] <= $2) { a += right[i]; b += of[i] }
      rows++; if (!b) exit bad = 1
      off = $3 - a / b; if (off * off > 0.00051 ^ 2) exit bad = 1 }
    END { exit bad || rows != 10 }' "$tmp/guessed" "$tmp/bins"
expect 0 'listops, masked +\|.*\| +[0-9.]+ \|' "cast_report: apart" "$bin/cast_report" "$tmp/run"
check "in bits" grep -q 'bits a token' "$tmp/out"
expect 0 'mean of 5' "no result of the task" "$bin/cast_report" "$tmp/run" --papers
check "at all" bash -c "! grep -q 'ours: ' '$tmp/out'"
expect 0 'GFLOP' "cast_bench" "$bin/cast_bench" "$tmp/tiny.json" --seconds 0.05 --threads 1

# ---- what is refused ----

expect 78 "'train.mask' must be a number from 0 to 0.95, got 1" "all masked" "${train[@]}" train.mask=1 --out "$tmp/x"
expect 78 'train.mask = 0.2 is of masked training alone' "masks without the objective" \
    "${train[@]}" train.objective=classify train.mask=0.2 --out "$tmp/x"
expect 78 'on task custom needs train.mask' "data of one's own without a share" "${train[@]}" task=custom --out "$tmp/x"
expect 0 'test accuracy of best' "and with one" "${train[@]}" task=custom train.mask=0.3 --out "$tmp/custom"
expect 78 'train.objective \("masked", now "classify"\)' "another objective in the same run" \
    "${train[@]}" train.objective=classify --out "$tmp/run"
check "nothing is left" test ! -e "$tmp/x"
