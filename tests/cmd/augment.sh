#!/bin/bash
# Augmentation from the command line: of every task that has one, what is shown of it, and what is refused.
set -u
. tests/training.sh

config() { # config TASK LENGTH: of tiny data
    cat <<EOF
{ "task": "$1", "data": { "dir": "$tmp/$1", "augment": true },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": $2, "attention": { "clusters": 4 } },
  "train": { "steps": 6, "batch": 4, "lr": 1e-2, "log_every": 1, "seed": 3 } }
EOF
}
make_data "$tmp/text" text 12 3 3 40
make_data "$tmp/retrieval" retrieval 12 3 3 40
"$bin/cast_data" generate listops --out "$tmp/listops" --train 12 --val 3 --test 3 >/dev/null 2>&1
"$bin/cast_data" generate pathfinder --out "$tmp/pathfinder" --train 12 --val 3 --test 3 >/dev/null 2>&1

# The losses of training, which others are behind if the examples are others.
losses() { grep '"train"' "$1/metrics.jsonl" | grep -o '"loss": [^,]*'; }
for task in listops text retrieval pathfinder; do
    case $task in text | retrieval) length=40 ;; *) length=1024 ;; esac
    config $task $length >"$tmp/$task.json"
    train=("$bin/cast_train" "$tmp/$task.json" --threads 1)
    expect 0 'test accuracy of last' "$task trains" "${train[@]}" --out "$tmp/run-$task"
    "${train[@]}" data.augment=false --out "$tmp/plain-$task" >"$tmp/out" 2>&1
    result $? "and without" "$tmp/out"
    check "on other examples" bash -c "! diff <(echo '$(losses "$tmp/run-$task")') <(echo '$(losses "$tmp/plain-$task")')"
    expect 0 'as cast_train measured it' "cast_eval: the split as it is" "$bin/cast_eval" "$tmp/run-$task"
done
check "settings in config.json" grep -q '"drop": *0.1' "$tmp/run-text/config.json"
check "of what is varied alone" bash -c "! grep -q '\"drop\"' '$tmp/plain-text/config.json'"
expect 0 'listops' "a listops run in a table" "$bin/cast_report" "$tmp/run-listops" "$tmp/plain-listops"
check "with what differs" grep -q 'augment' "$tmp/out"

# ---- what is shown ----

show=("$bin/cast_data" show)
"${show[@]}" "$tmp/listops" --index 3 >"$tmp/plain" 2>&1
expect 0 '= [0-9]' "an example varied" "${show[@]}" "$tmp/listops" --index 3 --augment
cp "$tmp/out" "$tmp/one"
check "is another" bash -c "! cmp -s '$tmp/one' '$tmp/plain'"
"${show[@]}" "$tmp/listops" --index 3 --augment --seed 1 >"$tmp/two" 2>&1
check "that of train.seed 1" cmp "$tmp/one" "$tmp/two"
expect 0 '▒' "masked bytes" "${show[@]}" "$tmp/text" --index 2 --augment
expect 0 'pixels' "a picture" "${show[@]}" "$tmp/pathfinder" --index 1 --augment --seed 2 --png "$tmp/x.png"
expect 64 'augment: of which example' "--augment alone" "${show[@]}" "$tmp/text" --augment
expect 64 'show: --seed is of --augment' "--seed alone" "${show[@]}" "$tmp/text" --index 2 --seed 2

# ---- what is refused ----

train=("$bin/cast_train" "$tmp/text.json" --out "$tmp/x")
expect 78 'data.drop says nothing without data.augment=true' "a setting without it" \
    "${train[@]}" data.augment=false data.drop=0.2
expect 78 "'data.shift' is unknown" "another task's setting" "${train[@]}" data.shift=2
expect 78 "'data.drop' must be a number from 0 to 0.95, got 1" "all dropped" "${train[@]}" data.drop=1
expect 78 'masks tokens, which is what train.objective=masked does' "twice masked" \
    "${train[@]}" train.objective=masked
expect 78 'task custom has no augmentation' "data of one's own" "${train[@]}" task=custom
check "nothing is left" test ! -e "$tmp/x"
sed 's/"task":"text"/"task":"mine"/' "$tmp/text/val.safetensors" >"$tmp/mine.safetensors"
expect 64 'has no augmentation' "and shown" "${show[@]}" "$tmp/mine.safetensors" --index 0 --augment
