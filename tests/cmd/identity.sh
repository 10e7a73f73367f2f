#!/bin/bash
# A run goes on with the data, the kernels and the build that it began with, or says that it does not.
set -u
. tests/training.sh
root=$PWD
config() { # config NAME DATA: a config whose data have that path
    cat >"$tmp/$1.json" <<END
{ "task": "listops", "data": { "dir": "$2" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 8, "batch": 4, "lr": 5e-3, "log_every": 2, "eval_every": 4 } }
END
}
config plain "$tmp/plain"
config made "$tmp/made"
config there there
# Data without a hash in their metadata, and with one; and others in their place.
fill() { # fill KIND SEED
    if [ "$1" = made ]; then
        "$bin/cast_data" generate listops --out "$tmp/made" --train 40 --val 9 --test 9 --seed "$2" >"$tmp/log" 2>&1
        return
    fi
    mkdir -p "$tmp/plain"
    make_split "$tmp/plain/train.safetensors" listops 40 60 "$2"1
    make_split "$tmp/plain/val.safetensors" listops 9 60 "$2"2
    make_split "$tmp/plain/test.safetensors" listops 9 60 "$2"3
}
changes() { grep -c '"change"' "$1/metrics.jsonl"; }
tests_of() { grep '"which"' "$1/metrics.jsonl"; } # the place of the data is part of a checkpoint
silent() { ! grep -E 'warning|hash' "$tmp/out" | other_than_callers; }

# ---- data that are not there ----

fill plain 1
mkdir "$tmp/home" "$tmp/away"
cp -r "$tmp/plain" "$tmp/home/there"
cd "$tmp/home" || exit 1
train=("$bin/cast_train" "$tmp/there.json")
"${train[@]}" --out "$tmp/whole" >"$tmp/log" 2>&1
result $? "a run" "$tmp/log"
"${train[@]}" --out "$tmp/run" --stop-at 3 >"$tmp/log" 2>&1
stopped=$(hash_of "$tmp/run")
cd "$tmp/away" || exit 1
lost="there/train.safetensors: cannot be read: .* looked for in there, from $tmp/away\. .* by data.dir=DIR"
expect 66 "$lost" "from another directory, a run has no data" "${train[@]}" --out "$tmp/run"
expect 66 "$lost" "says a dry run, too" "${train[@]}" --out "$tmp/run" --dry-run
check "and none are made" test -z "$(ls -A)"
check "the run is what it was" test "$(hash_of "$tmp/run")" = "$stopped"
expect 0 'resuming at update 3' "told where they are, it goes on" "${train[@]}" data.dir=../home/there --out "$tmp/run"
equal "to the same figures" "$(tests_of "$tmp/run")" "$(tests_of "$tmp/whole")"
check "and says no more than that they moved" \
    test "$(grep -c warning "$tmp/out") $(grep -c 'now looked for in ../home/there' "$tmp/out") $(changes "$tmp/run")" = "1 1 0"
cd "$root" || exit 1

# ---- other data ----

for kind in plain made; do
    data=$tmp/$kind run=$tmp/run-$kind
    train=("$bin/cast_train" "$tmp/$kind.json")
    fill $kind 1
    "${train[@]}" --out "$run" --stop-at 3 >"$tmp/log" 2>&1
    result $? "$kind: a run" "$tmp/log"
    cp -r "$run" "$run-2"
    cp -r "$data" "$data-2"
    was=$(hash_of "$run")
    fill $kind 2
    expect 78 "^cast_train: $data/train.safetensors: has hash [0-9a-f]{8}, but $run/last.safetensors was made with data of hash [0-9a-f]{8}\." \
        "$kind: other data are refused" "${train[@]}" --out "$run"
    now=$(sed -nE 's/.* has hash ([0-9a-f]{8}),.*/\1/p' "$tmp/out")
    check "$kind: with both hashes" test "$(grep -oE 'hash [0-9a-f]{8}' "$tmp/out" | sort -u | wc -l)" = 2
    check "$kind: the run is what it was" test "$(hash_of "$run")" = "$was"
    expect 0 'train.safetensors: has hash .*; going on with other data$' "$kind: --accept-data goes on" \
        "${train[@]}" --out "$run" --accept-data --stop-at 3
    check "$kind: and is told for ever" \
        grep -q "^{\"kind\": \"change\", \"step\": 3, .*\"what\": \"data.train\", \"was\": \"[0-9a-f]*\", \"now\": \"$now\"}" "$run/metrics.jsonl"
    expect 0 'resuming at update 3' "$kind: to the end" "${train[@]}" --out "$run"
    check "$kind: a line a split, once" test "$(changes "$run")" = 3
    expect 0 'resuming at update 3' "$kind: with the data that it had" "${train[@]}" data.dir="$data-2" --out "$run-2"
    check "$kind: nothing changes" test "$(changes "$run-2")" = 0
    expect 0 "^warning: $data/test.safetensors: has hash .*$run-2/best.safetensors was made with" \
        "$kind: cast_eval tells of other data" "$bin/cast_eval" "$run-2" data.dir="$data"
    for split in train val; do
        expect 0 "^warning: $data/$split.safetensors: has hash " "$kind: of the split that it looks at, $split" \
            "$bin/cast_eval" "$run-2" data.dir="$data" --split $split
    done
    expect 0 "^warning: $data/test.safetensors: has hash " "$kind: and so does cast_viz" \
        "$bin/cast_viz" "$run-2" data.dir="$data" --index 1 --out "$tmp/pictures"
    expect 0 '^test accuracy' "$kind: of those that it had" "$bin/cast_eval" "$run-2"
    check "$kind: nothing is said" silent
done

# The best by other examples is none; by the same it stays, whatever the others are.
train=("$bin/cast_train" "$tmp/plain.json")
validations() { grep -c '"kind": "val", "step": 4,' "$1/metrics.jsonl"; }
fill plain 1
"${train[@]}" --out "$tmp/best" --stop-at 4 >"$tmp/log" 2>&1
result $? "a run with a validation behind it" "$tmp/log"
cp -r "$tmp/best" "$tmp/best-2"
cp "$tmp/plain/val.safetensors" "$tmp"
fill plain 2
expect 0 '^warning: the best so far, of update 4, was validated by other' "another split validates" \
    "${train[@]}" --out "$tmp/best" --accept-data
check "the update at hand, too" test "$(validations "$tmp/best")" = 2
grep -A1 '"what": "data.test"' "$tmp/best/metrics.jsonl" >"$tmp/after"
check "which the checkpoint tells at once" grep -q '"kind": "save"' "$tmp/after"
check "which is the best then" grep -q '^update 4, .*: the best so far' "$tmp/out"
expect 0 '1 of 1' "the run is reported as done" "$bin/cast_report" "$tmp/best"
cp "$tmp/val.safetensors" "$tmp/plain"
expect 0 'train.safetensors: has hash ' "the same split validates" "${train[@]}" --out "$tmp/best-2" --accept-data
check "which has done so" test "$(validations "$tmp/best-2")" = 1
check "and the best is one of all" test "$(grep -c 'is sought anew' "$tmp/out")" = 0

# A view of the training split is known by that.
make_split "$tmp/held.safetensors" text 20 40 4
mkdir "$tmp/held"
cp "$tmp/held.safetensors" "$tmp/held/train.safetensors"
cp "$tmp/held.safetensors" "$tmp/held/test.safetensors"
make_split "$tmp/held/val.safetensors" text 3 40 5
held=("$bin/cast_train" "$tmp/plain.json" task=text data.dir="$tmp/held" data.holdout=0.2 --out "$tmp/run-held")
"${held[@]}" --stop-at 3 >"$tmp/log" 2>&1
make_split "$tmp/held/val.safetensors" text 3 40 6
expect 0 'resuming at update 3' "a split that is not read may be another" "${held[@]}"
check "and nothing is said" silent

make_split "$tmp/held/train.safetensors" text 20 40 7
expect 0 '^warning: the best so far, of update ' "what is held out of other examples has no best" \
    "${held[@]}" train.eval_every=3 --accept-data --stop-at 6

# A sweep names the runs that it refuses, and makes the others.
fill plain 1
sweep=("$bin/cast_sweep" "$tmp/plain.json" --seeds 1..2 --threads 1 --out "$tmp/sweep")
"${sweep[@]}" --only 1 >"$tmp/log" 2>&1
fill plain 2
expect 1 "^failed   run 1, seed=1: $tmp/plain/train.safetensors: has hash .*seed=1/last.safetensors was made with" \
    "a sweep refuses other data" "${sweep[@]}" train.steps=10
check "for that run alone" grep -q '1 of 2 runs are done' "$tmp/out"

# ---- another program or machine ----

"$bin/cast_train" "$tmp/plain.json" --out "$tmp/moved" --stop-at 3 >"$tmp/log" 2>&1
cp -r "$tmp/moved" "$tmp/stays"
expect 0 'resuming at update 3' "on the machine where it began" "$bin/cast_train" "$tmp/plain.json" --out "$tmp/stays" --stop-at 5 --no-test
check "nothing is said" silent
check "env.json has the examples of each split, of both processes" test "$(grep -cE '"(train|val|test)": [0-9]+' "$tmp/stays/env.json")" = 6
check "env.json has both processes" test "$(grep -c '"blas"' "$tmp/stays/env.json") $(grep -c '"earlier"' "$tmp/stays/env.json")" = "2 1"
check "the one at work first" grep -qE '^  "command": .*--no-test' "$tmp/stays/env.json"
# Kernels of an old processor; elsewhere than on x86 there are none of that name. Not of the oldest: those are what
# OpenBLAS takes for a processor that is too new for it.
old=(env OPENBLAS_CORETYPE=Nehalem "$bin/cast_train" "$tmp/plain.json" --out)
"${old[@]}" "$tmp/old" --stop-at 1 >"$tmp/log" 2>&1
if grep -q '"blas".* Nehalem' "$tmp/old/env.json"; then
    old+=("$tmp/moved")
    expect 0 'last.safetensors: goes on with a change of kernels \(OpenBLAS .*, now OpenBLAS .* Nehalem' \
        "other kernels are told" "${old[@]}" --stop-at 5
    check "in the metrics, too" \
        grep -q '^{"kind": "change", "step": 3, .*"what": "kernels", "was": "OpenBLAS .*", "now": "OpenBLAS .* Nehalem' "$tmp/moved/metrics.jsonl"
    expect 0 'resuming at update 5' "and going on with them" "${old[@]}"
    check "is none" silent
    check "env.json has three processes" test "$(grep -c '"blas"' "$tmp/moved/env.json")" = 3
    check "each with its own" test "$(grep -c 'Nehalem' "$tmp/moved/env.json")" = 2
    expect 0 '1 of 1' "the run is reported" "$bin/cast_report" "$tmp/moved"
    cp "$tmp/moved/last.safetensors" "$tmp/moved/metrics.jsonl" "$tmp"
    expect 0 'with a change of kernels' "where nothing is left to do" "$bin/cast_train" "$tmp/plain.json" --no-test --out "$tmp/moved"
    check "the state stays that of what made it" cmp "$tmp/last.safetensors" "$tmp/moved/last.safetensors"
    check "and the metrics" cmp "$tmp/metrics.jsonl" "$tmp/moved/metrics.jsonl"
else
    echo "ok # SKIP OpenBLAS has one kind of kernels here: no other can be told"
fi
