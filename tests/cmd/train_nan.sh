#!/bin/bash
# What training does about updates that are not finite, by train.nan: they are left out, or the run goes back. The same
# bits at any number of threads, and whenever it is stopped on the way.
set -u
. tests/training.sh
# Documents of up to 60 tokens train; others have up to 30.
make_data "$tmp/data" listops 40 9 23 30
make_split "$tmp/data/train.safetensors" listops 40 60 1
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 2, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 120, "batch": 4, "lr": 5e-3, "eval_every": 10, "log_every": 5 } }
END
train=("$bin/cast_train" "$tmp/tiny.json" --threads 1)
bytes_of_a_row=64 largest='\xff\xff\x7f\x7f' every=10
if [ "${CAST_MODE:-}" = double ]; then # whose range it takes longer to leave
    bytes_of_a_row=128 largest='\xff\xff\xff\xff\xff\xff\xef\x7f' every=50
fi

# Stopped each few updates, and then, at two threads, killed at any moment.
in_pieces() { # in_pieces NAME REFERENCE OUT COMMAND...
    local name=$1 want=$2 out=$3 i pid
    shift 3
    for ((i = 3; i < 120; i += 8)); do "$@" --out "$out" --stop-at $i >"$tmp/out" 2>&1; done
    "$@" --out "$out" >"$tmp/out" 2>&1
    grep -q 'resuming at update' "$tmp/out" && [ "$(hash_of "$out")" = "$want" ]
    result $? "$name: stopped on the way, the same bits" "$tmp/out"
    "$@" --out "$out-killed" --stop-at 3 >"$tmp/out" 2>&1
    for ((i = 0; i < 5; i++)); do
        "$@" --out "$out-killed" --threads 2 train.save_minutes=0.01 >"$tmp/out" 2>&1 &
        pid=$!
        nap 30 110
        kill -KILL $pid 2>/dev/null
        wait $pid 2>/dev/null
    done
    "$@" --out "$out-killed" --threads 2 >"$tmp/out" 2>&1
    grep -q 'resuming at update' "$tmp/out" && [ "$(hash_of "$out-killed")" = "$want" ]
    result $? "$name: killed on the way, at two threads, the same bits" "$tmp/out"
}

# ---- what stops a run is known ----

expect 78 "'train.nan' must be one of stop, skip, rollback, got \"ignore\"" "a policy that is none" \
    "${train[@]}" train.nan=ignore --out "$tmp/none"
# Weights grow by 2.6 with each update: too large after 12 to 14. At half the rate they shrink.
wild=("${train[@]}" train.lr=1 train.weight_decay=3.6 "train.eval_every=$every")
expect 70 'update [0-9]+: .*; it is not made.*or train.nan=skip, in this --out$' "as it is, the run stops" "${wild[@]}" --out "$tmp/stop"
bad=$(sed -nE 's/.*cast_train: update ([0-9]+): .*/\1/p' "$tmp/out")
check "without another file" test ! -e "$tmp/stop/rollback.safetensors"
check "its checkpoint is one of 0.1.0" bash -c "! grep -q 'state.guard' '$tmp/stop/last.safetensors'"

# ---- rollback ----

back=("${wild[@]}" train.nan=rollback)
expect 0 '^warning: update [0-9]+: .*; it is not made. Back to update [0-9]+, with 0.5 of the learning rate' \
    "goes back" "${back[@]}" --out "$tmp/back"
reference=$(hash_of "$tmp/back")
times=$(lines_of "$tmp/back" rollback)
check "and comes to its end" grep -q "^went back from numbers that were not finite $times times" "$tmp/out"
check "which counts as finished" bash -c "'$bin/cast_report' '$tmp/back' | grep -q ' 1 of 1 '"
check "each time tells where" test "$(grep -cE '"kind": "rollback", "step": [0-9]+, "epoch": [0-9.]+, "seconds": [0-9.e-]+, "from": [0-9]+, "rollbacks": [1-3], "rate": 0\.[125]+\}' "$tmp/back/metrics.jsonl")" = "$times"
check "the rate stays halved" grep -qE '"step": 120, .*"lr": 0\.[125]+,' "$tmp/back/metrics.jsonl"
in_pieces "rollback" "$reference" "$tmp/back-pieces" "${back[@]}"
check "rollback: the same lines after all" diff \
    <("$bin/cast_report" "$tmp/back" --format csv | cut -d, -f2-6) <("$bin/cast_report" "$tmp/back-pieces" --format csv | cut -d, -f2-6)
expect 0 '1 are left out so far, 1 in a row' "a run that stopped may go on with another policy" \
    "${wild[@]}" train.nan=skip --out "$tmp/stop" --stop-at $((bad + 2))

# A position that makes each update bad from 15 on, at any rate: long documents come in each epoch.
spoilt() { # spoilt OUT KEY...
    local out=$1
    shift
    "${train[@]}" "$@" --stop-at 14 --out "$out" >"$tmp/out" 2>&1
    edit "$out/last.safetensors" pos.weight "$(repeat 16 "$largest")" $((50 * bytes_of_a_row))
}
spoilt "$tmp/often" train.nan=rollback
cp "$tmp/often/last.safetensors" "$tmp/often/rollback.safetensors"
expect 70 'update [0-9]+: loss nan, .*, after 3 rollbacks. The state of update [0-9]+ is saved' "three times at most" \
    "${train[@]}" train.nan=rollback --out "$tmp/often"
check "told three times" test "$(lines_of "$tmp/often" rollback)" = 3
check "the last at an eighth" grep -q '"rollbacks": 3, "rate": 0.125}' "$tmp/often/metrics.jsonl"
expect 70 'update [0-9]+: loss nan' "nor once more" "${train[@]}" train.nan=rollback --out "$tmp/often"
check "when it is called again" test "$(lines_of "$tmp/often" rollback)" = 3

# Nothing to go back to, or what is none.
spoilt "$tmp/gone" train.nan=rollback
head -c 5000 "$tmp/gone/rollback.safetensors" >"$tmp/half" && mv "$tmp/half" "$tmp/gone/rollback.safetensors"
expect 70 'Back to update 14' "where the state to go back to is damaged, that at hand is it" \
    "${train[@]}" train.nan=rollback --out "$tmp/gone"

"${train[@]}" train.lr=1e-3 train.nan=rollback --stop-at 14 --out "$tmp/other" >"$tmp/out" 2>&1
spoilt "$tmp/alien" train.nan=rollback
cp "$tmp/other/rollback.safetensors" "$tmp/alien"
expect 70 'Back to update 14' "where it is another run's as well" "${train[@]}" train.nan=rollback --out "$tmp/alien"

# Or it goes while the run is at work, whose validation alone has documents of 60 tokens.
mkdir "$tmp/lost-data" && cp "$tmp/data/"*.safetensors "$tmp/lost-data"
make_split "$tmp/lost-data/train.safetensors" listops 40 30 1
make_split "$tmp/lost-data/val.safetensors" listops 9 60 5
lost=("${train[@]}" data.dir="$tmp/lost-data" train.steps=3000 train.eval_every=3000 train.nan=rollback --out "$tmp/lost")
"${lost[@]}" --stop-at 3 >"$tmp/out" 2>&1
edit "$tmp/lost/last.safetensors" pos.weight "$(repeat 16 "$largest")" $((50 * bytes_of_a_row))
rm "$tmp/lost/rollback.safetensors"
"${lost[@]}" >"$tmp/out" 2>&1 &
pid=$!
until [ -e "$tmp/lost/rollback.safetensors" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
rm -f "$tmp/lost/rollback.safetensors"
wait $pid
[ $? -eq 70 ] && grep -q 'validation (update 3000): .*; and the run cannot go back: .*rollback.safetensors.* The state of update 3000 is saved' "$tmp/out"
result $? "where nothing is left to go back to, that at hand is saved" "$tmp/out"
expect 70 'Back to update 3000' "and gone back to" "${lost[@]}"

# Nor is what a validation left before others that were made under another policy.
"${train[@]}" train.nan=rollback --stop-at 12 --out "$tmp/stale" >"$tmp/out" 2>&1
"${train[@]}" --stop-at 24 --out "$tmp/stale" >"$tmp/out" 2>&1
spoilt "$tmp/stale"
expect 70 'Back to update 24' "nor is it an older one than the last validation" \
    "${train[@]}" train.nan=rollback --out "$tmp/stale"

# Where the time is up as well, the run ends with what it went back to: an update more would have the command refused.
mkdir "$tmp/late-data" && cp "$tmp/data/"*.safetensors "$tmp/late-data"
make_split "$tmp/late-data/train.safetensors" listops 40 30 1
make_split "$tmp/late-data/val.safetensors" listops 9 60 5
late=("${train[@]}" data.dir="$tmp/late-data" train.steps=0 train.epochs=10000 train.minutes=0.005 train.schedule=constant
    train.eval_every=100000 train.nan=rollback --no-test --out "$tmp/late")
"${late[@]}" train.minutes=1 --stop-at 3 >"$tmp/out" 2>&1
cp "$tmp/late/last.safetensors" "$tmp/late/rollback.safetensors"
edit "$tmp/late/last.safetensors" pos.weight "$(repeat 16 "$largest")" $((50 * bytes_of_a_row))
expect 0 'Back to update 3' "back from the last update of a run by time" "${late[@]}"
check "which was the last" bash -c "tail -1 '$tmp/late/metrics.jsonl' | grep -q '\"save\", \"step\": 3,'"
expect 0 '' "and goes on as it ended" "${late[@]}"
late+=(--out "$tmp/none-kept")
"${late[@]}" train.minutes=1 --stop-at 3 >"$tmp/out" 2>&1
edit "$tmp/none-kept/last.safetensors" pos.weight "$(repeat 16 "$largest")" $((50 * bytes_of_a_row))
expect 70 'the time is up, and no update is kept, after 1 rollbacks' "back to the start, it is no success" "${late[@]}"
expect 70 'the time is up, and no update is kept' "nor is it later" "${late[@]}"

# ---- skip ----

spoilt "$tmp/skip" train.nan=skip
cp -r "$tmp/skip" "$tmp/skip-pieces"
cp -r "$tmp/skip" "$tmp/skip-pieces-killed"
skip=("${train[@]}" train.nan=skip)
expect 0 '^warning: update [0-9]+: loss nan, .*; it is not made \([0-9]+ are left out so far, 1 in a row\)$' \
    "leaves out" "${skip[@]}" --out "$tmp/skip"
skipped=$(lines_of "$tmp/skip" skip)
check "and tells how many in the end" grep -q "^$skipped updates that were not finite are left out" "$tmp/out"
check "a line for each" grep -qE "\"kind\": \"skip\", \"step\": [0-9]+, .*\"skipped\": $skipped, \"in_a_row\": [0-9]+\}" "$tmp/skip/metrics.jsonl"
check "and others are made" test "$skipped" -lt 100
check "means are of these" test "$(grep '"kind": "train"' "$tmp/skip/metrics.jsonl" | tail -n 4 | grep -c '"loss": [0-9]')" -gt 0
in_pieces "skip" "$(hash_of "$tmp/skip")" "$tmp/skip-pieces" "${skip[@]}"

# Every document has a first token.
edit "$tmp/skip/last.safetensors" pos.weight "$(repeat 16 "$largest")"
edit "$tmp/skip/last.safetensors" state.update '\x01\x00\x00\x00'
edit "$tmp/skip/last.safetensors" state.evaluated '\x00'
edit "$tmp/skip/last.safetensors" state.best_update '\x00'
edit "$tmp/skip/last.safetensors" state.guard "$(repeat 16 '\x00')"
expect 70 'update 101: loss nan, .*, the last of 100 in a row. The state of update 101 is saved' "a hundred in a row" \
    "${skip[@]}" train.eval_every=1000 --out "$tmp/skip"
check "which shows no means of none" grep -q ' loss - acc - ' "$tmp/out"
