#!/bin/bash
# What others do while a program works: streams that are closed, files that are cut or removed, signals at any moment.
# It ends with a message and the status that README.md has, and nothing is spoilt.
set -u
. tests/training.sh
make_data "$tmp/data" listops 40 9 9 60
cat >"$tmp/tiny.json" <<JSON
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "log_every": 5 } }
JSON
train=("$bin/cast_train" "$tmp/tiny.json" --threads 1)

# ---- standard streams that are closed ----

"${train[@]}" --out "$tmp/closed" <&- >&- 2>&-
result $? "without standard streams"
check "metrics hold metrics alone" test "$(grep -cv '^{"kind": ' "$tmp/closed/metrics.jsonl")" = 0
check "the lock its holder alone" test "$(grep -c '^process [0-9]* on ' "$tmp/closed/lock") $(wc -l <"$tmp/closed/lock")" = "1 1"
closed() { "$@" >&-; }
expect 74 'standard output: ' "what cannot be printed" closed "$bin/cast_eval" "$tmp/closed"
expect 74 'standard output: ' "nor the help" closed "$bin/cast_eval" --help

# ---- somebody deletes the lock ----

# Starts a run that goes on for hours, and waits until it has written metrics.
start() { # start OUT COMMAND...
    local out=$1
    shift
    "$@" --out "$out" train.steps=100000000 train.save_minutes=0.01 >"$tmp/log" 2>&1 &
    pid=$!
    until [ -s "$out/last.safetensors" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
}
stop() {
    kill -TERM $pid
    wait $pid
}
start "$tmp/unlocked" "${train[@]}"
rm "$tmp/unlocked/lock"
expect 73 'unlocked: is in use by another process' "a run whose lock was deleted is in use" \
    "${train[@]}" --out "$tmp/unlocked" train.steps=100000000 --stop-at 30
stop
