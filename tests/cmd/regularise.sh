#!/bin/bash
# What keeps a model from learning its examples by heart, through the programs.
set -u
. tests/training.sh
make_data "$tmp/data" listops 24 9 7 40
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 40,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "eval_every": 6, "log_every": 5 } }
END
train=("$bin/cast_train" "$tmp/tiny.json" --threads 1)

# A run without any is an error, whatever they are held against.
exec 3>&1
values() { # values RUN KIND KEY
    sed -nE "s/.*\"kind\": \"$2\".*\"$3\": ([^,}]*).*/\1/p" "$1/metrics.jsonl" | grep . || echo "not ok - $1 has $2 lines with $3" >&3
}

# ---- smoothed labels ----

expect 78 "'train.label_smoothing' must be a number from 0 to 0.999999" "all the mass on all classes" \
    "${train[@]}" train.label_smoothing=1 --out "$tmp/none"
# Weights that stay what they were tell which loss is whose.
still=("${train[@]}" train.lr=0)
expect 0 'last.safetensors' "labels as they are" "${still[@]}" --out "$tmp/plain"
expect 0 'last.safetensors' "smoothed labels" "${still[@]}" train.label_smoothing=0.5 --out "$tmp/smooth"
for kind in val test; do
    check "not in $kind" diff <(values "$tmp/plain" $kind loss) <(values "$tmp/smooth" $kind loss)
done
check "but in training" bash -c "! diff -q <(echo '$(values "$tmp/plain" train loss)') <(echo '$(values "$tmp/smooth" train loss)')"

# ---- dropout of one place ----

expect 78 "'model.dropout_ffn' must be a number from 0 to 0.95, or -1, got -0.5" \
    "a probability below 0" "${train[@]}" model.dropout_ffn=-0.5 --out "$tmp/none"
expect 0 'last.safetensors' "dropout everywhere" "${train[@]}" model.dropout=0.2 --out "$tmp/everywhere"
expect 0 'last.safetensors' "dropout of each place" "${train[@]}" model.dropout_embed=0.2 \
    model.dropout_attention=0.2 model.dropout_ffn=0.2 --out "$tmp/each"
check "are the same" diff <(values "$tmp/everywhere" val loss) <(values "$tmp/each" val loss)
expect 0 'last.safetensors' "dropout of one place" "${train[@]}" model.dropout_ffn=0.2 --out "$tmp/ffn"
check "is another" bash -c "! diff -q <(echo '$(values "$tmp/ffn" val loss)') <(echo '$(values "$tmp/each" val loss)')"
# A config of before has none of the keys: it had their defaults.
sed -i -E '/"dropout_(embed|attention|ffn)"/d' "$tmp/everywhere/config.json"
check "a config of before" bash -c "! grep -q dropout_ '$tmp/everywhere/config.json'"
expect 0 'resuming at update 20' "goes on" "${train[@]}" model.dropout=0.2 --out "$tmp/everywhere"
sed -i -E '/"dropout_(embed|attention|ffn)"/d' "$tmp/everywhere/config.json"
"$bin/cast_report" "$tmp/everywhere" "$tmp/ffn" --format csv >"$tmp/csv" 2>&1
check "and is reported with the defaults" grep -qE '^(run,)?task,.*dropout_ffn' "$tmp/csv"
check "in its row" bash -c "grep -q ',-1,' '$tmp/csv' && grep -q ',0.2,' '$tmp/csv'"

# ---- averaged weights ----

# The bytes of all tensors whose names match.
tensors() { # tensors FILE PATTERN
    local header at name from to
    header=$((8 + $(od -An -tu8 -N8 "$1")))
    head -c $header "$1" | tail -c +9 | grep -oE "\"$2\":\{\"dtype\"[^}]*\}" |
        sed -E 's/^"([^"]*)":.*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2 \3/' | sort |
        while read -r name from to; do
            echo "$name"
            tail -c +$((header + from + 1)) "$1" | head -c $((to - from)) | sha256sum
        done
}
trained='([a-rt-z]|state\.[mv])[^"]*' averaged='state\.ema\.[^"]*'
expect 78 "'train.ema' must be a number from 0 to 0.9999999" "a decay that never forgets" \
    "${train[@]}" train.ema=1 --out "$tmp/none"
for norm in layer batch; do
    expect 0 'last.safetensors' "a run without averages, $norm norm" "${train[@]}" model.norm=$norm --out "$tmp/without-$norm"
    expect 0 'last.safetensors' "a run with averages, $norm norm" \
        "${train[@]}" model.norm=$norm train.ema=0.7 --out "$tmp/ema-$norm"
    check "trains the same weights" diff <(tensors "$tmp/without-$norm/last.safetensors" "$trained") \
        <(tensors "$tmp/ema-$norm/last.safetensors" "$trained")
    check "and the same losses" diff <(values "$tmp/without-$norm" train loss) <(values "$tmp/ema-$norm" train loss)
    check "validates others" bash -c "! diff -q <(echo '$(values "$tmp/without-$norm" val loss)') <(echo '$(values "$tmp/ema-$norm" val loss)')"
    for which in --last ''; do
        # shellcheck disable=SC2086 # no word, or one
        expect 0 '^as cast_train measured it$' "cast_eval takes them too" "$bin/cast_eval" "$tmp/ema-$norm" $which
        check "and says so" grep -qE '^weights .*, averages over updates$' "$tmp/out"
    done
done
check "as many averages as parameters" test "$(tensors "$tmp/ema-batch/best.safetensors" "$averaged" | wc -l)" = \
    "$(tensors "$tmp/ema-batch/best.safetensors" '[a-rt-z][^"]*' | wc -l)"
check "none without train.ema" test -z "$(tensors "$tmp/without-batch/best.safetensors" "$averaged")"
drawn=("${train[@]}" model.attention.type=performer --no-test)
"${drawn[@]}" --out "$tmp/drawn" >"$tmp/log" 2>&1
expect 0 'last.safetensors' "averages of a run that begins with others' weights" \
    "${drawn[@]}" train.init="$tmp/drawn" train.seed=2 train.ema=0.7 --out "$tmp/drawn-on"
features() { tensors "$1/last.safetensors" '[^"]*features' | grep -v features | sort -u; }
check "have what those have drawn" diff <(features "$tmp/drawn") <(features "$tmp/drawn-on")
check "which is something" test -n "$(features "$tmp/drawn")"
expect 78 'another config: train.ema \(0.7, now 0.8\)' "another decay is another run" \
    "${train[@]}" model.norm=batch train.ema=0.8 --out "$tmp/ema-batch"
wild=("${train[@]}" train.ema=0.7 train.steps=60 train.lr=1 train.weight_decay=3.6 train.nan=rollback)
[ "${CAST_MODE:-}" != double ] || wild+=(train.steps=400 train.eval_every=50)
expect 0 'Back to update' "a run that goes back" "${wild[@]}" --out "$tmp/wild"
for ((i = 3; i < 60; i += 5)); do "${wild[@]}" --out "$tmp/wild-pieces" --stop-at $i >/dev/null 2>&1; done
expect 0 'resuming at update' "and one in pieces" "${wild[@]}" --threads 2 --out "$tmp/wild-pieces"
check "have the same averages" diff <(tensors "$tmp/wild/last.safetensors" "$averaged") \
    <(tensors "$tmp/wild-pieces/last.safetensors" "$averaged")

# ---- the last validations ----

expect 78 "'train.keep' must be .*from 0 to 50" "more than can be" "${train[@]}" train.keep=51 --out "$tmp/none"
kept=("${train[@]}" train.keep=2 train.ema=0.7 train.nan=rollback)
expect 0 'last.safetensors' "a run that keeps the last two" "${kept[@]}" --out "$tmp/kept"
names() { (cd "$1" && echo at-*); }
check "keeps the last two" test "$(names "$tmp/kept")" = "at-0000000018.safetensors at-0000000020.safetensors"
for ((i = 2; i < 20; i += 3)); do "${kept[@]}" --out "$tmp/kept-pieces" --threads 2 --stop-at $i >/dev/null 2>&1; done
expect 0 'resuming at update' "and one in pieces, at two threads" "${kept[@]}" --threads 2 --out "$tmp/kept-pieces"
check "has the same files" diff <(cd "$tmp/kept" && sha256sum at-* last* best*) <(cd "$tmp/kept-pieces" && sha256sum at-* last* best*)
expect 0 '^average  of 2 checkpoints' "the mean of them" "$bin/cast_eval" "$tmp/kept" --average
check "is no line of the run's" bash -c "! grep -q 'as cast_train measured' '$tmp/out'"
expect 0 '"average_of":2' "in JSON" "$bin/cast_eval" "$tmp/kept" --average --json
expect 0 '^val accuracy of checkpoint' "each of them can be opened" "$bin/cast_eval" "$tmp/kept/at-0000000018.safetensors" --split val
expect 66 'has no at-<update>.safetensors to average' "none are there" "$bin/cast_eval" "$tmp/each" --average
expect 64 'exclude each other' "the last, and the mean" "$bin/cast_eval" "$tmp/kept" --average --last
# Of a run that was killed behind what it kept; and one of another model.
cp "$tmp/kept/at-0000000020.safetensors" "$tmp/kept/at-0000000021.safetensors"
expect 0 'resuming at update 20' "a run that goes on" "${kept[@]}" --out "$tmp/kept"
check "forgets what is still to come" test "$(names "$tmp/kept")" = "at-0000000018.safetensors at-0000000020.safetensors"
cp "$tmp/without-batch/last.safetensors" "$tmp/kept/at-0000000019.safetensors"
expect 65 'at-0000000019.safetensors: was saved under another config' "one of another run" "$bin/cast_eval" "$tmp/kept" --average

# ---- the best ----

# The update that a run tested as its best, or "none", and the first of its validations in an order of "accuracy loss update".
tested_best() {
    sed -nE 's/^.*"kind": "test", "step": ([0-9]+),.*"which": "best".*/\1/p' "$1/metrics.jsonl" | grep . || echo none
}
validated_best() { # validated_best RUN SORT...
    sed -nE 's/^.*"kind": "val", "step": ([0-9]+),.*"accuracy": ([^,]*), "loss": ([^,]*),.*/\2 \3 \1/p' "$1/metrics.jsonl" |
        sort -s "${@:2}" | sed 's/.* //;q'
}
short=("${train[@]}" train.steps=60 train.eval_every=3 train.lr=0.02)
expect 0 'the best so far' "a run that is best by loss" "${short[@]}" train.best=loss --out "$tmp/by-loss"
expect 0 'the best so far' "and one by accuracy" "${short[@]}" --out "$tmp/by-accuracy"
check "has the update of the lowest loss" test "$(tested_best "$tmp/by-loss")" = "$(validated_best "$tmp/by-loss" -k 2,2g -k 1,1rg)"
check "and of the highest accuracy" \
    test "$(tested_best "$tmp/by-accuracy")" = "$(validated_best "$tmp/by-accuracy" -k 1,1rg -k 2,2g)"
check "which are two" test "$(tested_best "$tmp/by-loss")" != "$(tested_best "$tmp/by-accuracy")"
expect 78 'train.best \("accuracy", now "loss"\)' "a run stays with its own" "${short[@]}" train.best=loss --out "$tmp/by-accuracy"

# ---- patience ----

# A learning rate at which validation soon gets no better.
patient=("${train[@]}" train.steps=4000 train.eval_every=3 train.lr=0.02 train.patience=4 train.ema=0.7 train.keep=3)
expect 0 '^train.patience is out: none of 4 validations is better than that of update [0-9]+$' \
    "a run that ends sooner" "${patient[@]}" --out "$tmp/patient"
best=$(sed -nE 's/^train.patience is out: .* of update ([0-9]+)$/\1/p' "$tmp/out")
check "four validations after its best" grep -q "^test accuracy of last (update $((best + 12)))" "$tmp/out"
check "is tested" test "$(lines_of "$tmp/patient" test)" = 2
check "and says so" grep -qE "^\{\"kind\": \"patience\", \"step\": $((best + 12)), .*\"stale\": 4\}" "$tmp/patient/metrics.jsonl"
check "counts as finished" bash -c "'$bin/cast_report' '$tmp/patient' | grep -q ' 1 of 1 '"
expect 0 "^test accuracy of last .update $((best + 12)).:" "and ends there again" "${patient[@]}" --out "$tmp/patient"
for ((i = 2; i < best + 12; i += 4)); do "${patient[@]}" --out "$tmp/patient-pieces" --threads 2 --stop-at $i >/dev/null 2>&1; done
expect 0 'train.patience is out' "one in pieces, at two threads" "${patient[@]}" --threads 2 --out "$tmp/patient-pieces"
check "ends with the same files" diff <(cd "$tmp/patient" && sha256sum at-* last* best*) <(cd "$tmp/patient-pieces" && sha256sum at-* last* best*)
make_data "$tmp/text" text 24 9 7 40
sed "s/listops/text/; s#$tmp/data#$tmp/text#" "$tmp/tiny.json" >"$tmp/text.json"
expect 78 'train.patience with data.holdout=0 would end the run by the test set' "not by the test set" \
    "$bin/cast_train" "$tmp/text.json" train.patience=2 data.holdout=0 --out "$tmp/text-run"
check "and nothing is begun" test ! -e "$tmp/text-run"
expect 0 'last.safetensors' "but by what is held out" \
    "$bin/cast_train" "$tmp/text.json" train.patience=2 data.holdout=0.2 --threads 1 --out "$tmp/text-run"
expect 0 'accuracy' "and it can be evaluated on either" "$bin/cast_eval" "$tmp/text-run" --split val data.holdout=0
