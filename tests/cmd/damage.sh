#!/bin/bash
# Data that are not what they were made as are found before anything is saved that was trained on them, or said of them.
set -u
. tests/training.sh
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/made" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 8, "batch": 4, "lr": 5e-3, "log_every": 2, "eval_every": 4 } }
END
# With a hash in their metadata.
make() { "$bin/cast_data" generate listops --out "$tmp/made" --train 40 --val 9 --test 9 >"$tmp/log" 2>&1; }

# Every label another one, as cast_data verify sees, and cast_train did not.
damage() { # damage FILE
    local header labels
    header=$((0x$(head -c 8 "$1" | od -An -tx8 | tr -d ' ')))
    labels=$(head -c $((8 + header)) "$1" | grep -aoE '"labels":[^}]*\[[0-9]+,[0-9]+\]' | grep -oE '[0-9]+,[0-9]+')
    dd if="$1" of="$tmp/labels" bs=1 skip=$((8 + header + ${labels%,*})) count=$((${labels#*,} - ${labels%,*})) 2>/dev/null
    tr '\001-\011' '\002-\011\001' <"$tmp/labels" | dd of="$1" bs=1 seek=$((8 + header + ${labels%,*})) conv=notrunc 2>/dev/null
}
train=("$bin/cast_train" "$tmp/tiny.json")
make
"${train[@]}" --out "$tmp/begun" --stop-at 3 >"$tmp/log" 2>&1
was=$(hash_of "$tmp/begun")
damage "$tmp/made/train.safetensors"
expect 65 "made/train.safetensors: its data's hash is .* damaged" "labels of train that were changed" \
    "${train[@]}" --out "$tmp/spoilt"
check "nothing is trained on them" test ! -e "$tmp/spoilt/last.safetensors"
expect 65 "made/train.safetensors: its data's hash is .* damaged" "nor where a run goes on" "${train[@]}" --out "$tmp/begun"
check "which is what it was" test "$(hash_of "$tmp/begun")" = "$was"
expect 0 '^test accuracy' "what is not read is not missed" "$bin/cast_eval" "$tmp/begun" --last
damage "$tmp/made/test.safetensors"
expect 65 "made/test.safetensors: its data's hash is " "labels of test, of cast_eval" "$bin/cast_eval" "$tmp/begun" --last
expect 65 "made/test.safetensors: its data's hash is " "of cast_viz" "$bin/cast_viz" "$tmp/begun" --last --index 1

# Written to while a run reads it; and replaced, which changes nothing for who has it open.
make
cp -r "$tmp/made" "$tmp/other"
damage "$tmp/other/train.safetensors"
written() { # written STATUS COMMAND...: whether a long run ends so when that is done to its data, or is ended after it
    local want=$1 run
    rm -rf "$tmp/written" "$tmp/out"
    "${train[@]}" train.steps=1000000 train.eval_every=50 --out "$tmp/written" >"$tmp/out" 2>&1 &
    run=$!
    until grep -qs '^update 50,' "$tmp/out" || ! kill -0 $run 2>/dev/null; do sleep 0.05; done
    "${@:2}"
    [ "$want" = 65 ] || { sleep 0.3 && kill -TERM $run; } 2>/dev/null
    for ((i = 0; i < 600; i++)); do kill -0 $run 2>/dev/null && sleep 0.05; done
    kill -KILL $run 2>/dev/null
    wait $run
    [ $? -eq "$want" ]
}
written 75 touch "$tmp/made/train.safetensors"
result $? "data that are touched do not stop a run" "$tmp/out"
written 65 dd if="$tmp/other/train.safetensors" of="$tmp/made/train.safetensors" conv=notrunc status=none &&
    grep -q 'made/train.safetensors: was written to while it was read' "$tmp/out"
result $? "data that are written to do" "$tmp/out"
make
written 75 mv "$tmp/other/train.safetensors" "$tmp/made/train.safetensors"
result $? "data that are replaced do not" "$tmp/out"

# Read once, by whichever processes come first; when it was changed long enough ago for a note to tell.
make
rm -f "$tmp"/made/*.checked
sleep 1.1
for i in 1 2 3 4; do
    "${train[@]}" --out "$tmp/beside-$i" --threads 1 >"$tmp/log$i" 2>&1 &
    pids[i]=$!
done
for i in 1 2 3 4; do
    wait "${pids[i]}"
    result $? "process $i of those that read the same data" "$tmp/log$i"
done
check "which are noted to be right" test "$(cat "$tmp"/made/*.checked | grep -cE '^cast-checked-1 [0-9. ]+ [0-9a-f]{8}$')" = 3
check "and nothing is left over" test -z "$(find "$tmp/made" -name '*.tmp.*')"
damage "$tmp/made/val.safetensors"
expect 65 "made/val.safetensors: its data's hash is " "until they change" "${train[@]}" --out "$tmp/beside-1"
