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

# ---- a disk that fills up while data are made again ----

again() { "$bin/cast_data" generate listops --val 2 --test 2 --out "$tmp/small" "$@"; }
again --train 10 >"$tmp/out" 2>&1
was=$(cat "$tmp/small"/*.safetensors | sha256sum)
expect 74 'train.safetensors: cannot be written: .*is untouched' "no room for data where a set is" \
    with_small_files again --train 100 --seed 2
check "leaves that set" test "$(cat "$tmp/small"/*.safetensors | sha256sum)" = "$was"
check "and nothing beside it" test "$(cd "$tmp/small" && echo *)" = "test.safetensors train.safetensors val.safetensors"
expect 0 '' "then it is made again" again --train 100

# ---- data that are cut short while they are read ----

make_data "$tmp/cut" listops 40 9 9 60
cp -r "$tmp/cut" "$tmp/uncut"
start "$tmp/bus" "${train[@]}" data.dir="$tmp/cut"
truncate -s 0 "$tmp/cut/train.safetensors"
wait $pid
[ $? -eq 65 ] && grep -q "^cast_train: $tmp/cut/train.safetensors: can no longer be read: it was cut short" "$tmp/log"
result $? "data cut short end a run, which says so" "$tmp/log"
cp "$tmp/uncut/train.safetensors" "$tmp/cut"
expect 0 'resuming at update [1-9]' "its last checkpoint stands" \
    "${train[@]}" data.dir="$tmp/cut" train.steps=100000000 --out "$tmp/bus" --stop-at 1

# ---- the run's directory is removed, or another comes in its place ----

ends_alone() { # ends_alone NAME [PATTERN]: within 20 s, with one message
    local i pattern=${2:-'^cast_train: update [0-9]+ is lost: .* was removed or moved while'}
    for ((i = 0; i < 1000; i++)); do kill -0 $pid 2>/dev/null || break; sleep 0.02; done
    [ $i -lt 1000 ] || kill -KILL $pid
    wait $pid
    [ $? -eq 74 ] && grep -qE "$pattern" "$tmp/log" &&
        [ "$(grep -c 'NOT saved' "$tmp/log")" = 0 ]
    result $? "$1" "$tmp/log"
}
# At once: files go one by one, and a save may come between.
remove() { mv "$1" "$tmp/gone" && until rm -r "$tmp/gone" 2>/dev/null; do :; done; }
start "$tmp/removed" "${train[@]}"
remove "$tmp/removed"
ends_alone "a run whose directory was removed ends"
check "and makes none" test ! -e "$tmp/removed"
start "$tmp/moved" "${train[@]}"
mv "$tmp/moved" "$tmp/away"
"${train[@]}" --out "$tmp/moved" >"$tmp/out" 2>&1
was=$(hash_of "$tmp/moved")
ends_alone "one whose directory is another run's by now"
check "leaves that alone" test "$(hash_of "$tmp/moved")" = "$was"
"$bin/cast_sweep" "$tmp/tiny.json" --seeds 1..3 --threads 1 train.steps=100000000 train.save_minutes=0.01 \
    --out "$tmp/swept" >"$tmp/log" 2>&1 &
pid=$!
until [ -s "$tmp/swept/seed=1/last.safetensors" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
remove "$tmp/swept"
ends_alone "a sweep whose directory was removed ends" \
    "^cast_sweep: $tmp/swept was removed or moved while the sweep was at work"
check "with its first run, and makes none" test ! -e "$tmp/swept"
check "nor says how to go on" bash -c "! grep -q 'to go on: .*cast_sweep' '$tmp/log'"

# ---- a disk that is full where it is printed to ----

for words in "cast_data show '$tmp/data'" "cast_train '$tmp/tiny.json' --dry-run --json" \
    "cast_bench '$tmp/tiny.json' --json --seconds 0.01 --threads 1" "cast_viz --help"; do
    expect 74 'standard output: ' "a full disk: ${words%% *}" bash -c "'$bin'/$words >/dev/full"
done

# ---- signals before there is anything to save ----

# Ends a command at a random moment of its first third of a second: with the status that README.md has, unless it was
# faster, or had begun to train.
ended() { # ended SIGNAL STATUS COMMAND...
    local signal=$1 status=$2
    shift 2
    env --default-signal=INT "$@" >"$tmp/log" 2>&1 &
    pid=$!
    nap 10 300
    kill -"$signal" $pid 2>/dev/null
    wait $pid 2>/dev/null
    case $? in 0 | 75) ;; "$status") in_time=$((in_time + 1)) ;; *) result 1 "ended by SIG$signal: $*" "$tmp/log" ;; esac
}
left_over() { find "$@" -name '*.tmp.*'; }
whole_pictures() { # whole_pictures DIR
    local picture
    find "$1" -name '*.png' >"$tmp/pictures"
    while read -r picture; do
        [ "$(tail -c 8 "$picture" | head -c 4)" = IEND ] || { echo "$picture is cut short"; return 1; }
    done <"$tmp/pictures"
}
one_set() { [ ! -e "$1/train.safetensors" ] || "$bin/cast_data" verify "$1"; }
s=$tmp/signals in_time=0
paths=("$bin/cast_data" generate pathfinder --train 1000 --val 100 --test 100 --threads 1)
"${paths[@]}" --out "$s/paths" --png "$s/tree" >"$tmp/log" 2>&1
result $? "a set that is not ended" "$tmp/log"
for how in "TERM 143" "INT 130" "TERM 143"; do
    # shellcheck disable=SC2086 # two words
    ended $how "${paths[@]}" --seed $RANDOM --out "$s/ended" --png "$s/half"
    check "a set that was ended is whole, or none" one_set "$s/ended"
    # shellcheck disable=SC2086
    ended $how "$bin/cast_data" import pathfinder "$s/tree" --out "$s/imported"
    check "an import too" one_set "$s/imported"
done
check "pictures are whole" whole_pictures "$s/half"
check "a set is made where others were ended" "${paths[@]}" --out "$s/ended" --png "$s/half"
check "as if they had not been" diff -r "$s/paths" "$s/ended"
check "and imported" "$bin/cast_data" import pathfinder "$s/tree" --out "$s/imported"
check "with nothing beside them" test -z "$(left_over "$s")"
# To a container's first process the kernel does nothing but what a handler of its own does. clang's OpenMP looks for
# itself in /proc.
contain=(unshare -pf --mount-proc)
"${contain[@]}" true 2>"$tmp/log" || contain=(unshare -pf)
if "${contain[@]}" true 2>"$tmp/log"; then
    "${contain[@]}" "$bin/cast_data" generate pathfinder --threads 1 --out "$s/first" >"$tmp/log" 2>&1 &
    until [ -d "$s/first" ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
    pkill -TERM -P $!
    for ((i = 0; i < 100; i++)); do kill -0 $! 2>/dev/null && sleep 0.05; done
    pkill -KILL -P $!
    wait $!
    result $(($? != 143)) "a signal ends a container's first process" "$tmp/log"
else
    echo "ok # SKIP no namespace of processes: $(cat "$tmp/log")"
fi
"$bin/cast_data" generate listops --train 40 --val 5 --test 5 --out "$s/listops" >"$tmp/log" 2>&1
small=("${train[@]}" data.dir="$s/listops" train.steps=5 model.max_length=500)
"${small[@]}" --out "$s/reference" >"$tmp/log" 2>&1
result $? "a run that is not ended" "$tmp/log"
in_time=0
for ((i = 0; i < 6 || (i < 60 && in_time == 0); i++)); do
    # shellcheck disable=SC2046
    ended $([ $((i % 2)) = 0 ] && echo TERM 143 || echo INT 130) "${small[@]}" --out "$s/run"
done
check "some of them in time" test $in_time -gt 0
expect 0 'test accuracy of last' "a run whose starts were ended" "${small[@]}" --out "$s/run"
check "has the bits of the other" test "$(hash_of "$s/run")" = "$(hash_of "$s/reference")"
check "and nothing beside it" test -z "$(left_over "$s/run")"
