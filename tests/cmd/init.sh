#!/bin/bash
# train.init from the command line: what a run begins with, what it says of it, and what it refuses.
set -u
. tests/training.sh
make_data "$tmp/data" listops 40 9 23 60
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 2, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "eval_every": 5 } }
END
train() { "$bin/cast_train" "$tmp/tiny.json" --threads 1 "$@"; }
weights() { tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1" | sha256sum; } # without the header, which has the config
train --out "$tmp/run" >"$tmp/log" 2>&1
result $? "a run to begin with" "$tmp/log"
best=$(sed -n 's/^test accuracy of best (update \([0-9]*\)).*/\1/p' "$tmp/log")

# ---- what is taken ----

# Nothing moves at a rate of 0: the weights are still those that were taken.
expect 0 "^init +$tmp/run/best.safetensors, update $best\$" "a run's best weights" \
    train train.init="$tmp/run" train.lr=0 train.steps=1 --out "$tmp/same"
check "all of them" grep -qE '^ +taken \(46\): tok, pos, blocks.0-1: norm1 attn norm2 fc1 fc2, last, fc1, fc2$' "$tmp/out"
tail=$(sed -n 's/^test accuracy of best .*: \(.* %, loss\)/\1/p' "$tmp/log")
check "test as they did" grep -qF ": ${tail:-none}" "$tmp/out"
check "env.json says whose they are" grep -qF "\"file\": \"$tmp/run/best.safetensors\"" "$tmp/same/env.json"
check "which they are" grep -qE '"crc32": "[0-9a-f]{8}"' "$tmp/same/env.json"
check "and how many" grep -qF '"taken": 46' "$tmp/same/env.json"
check "and how they were made" grep -qE '"lr": 0.005' "$tmp/same/env.json"
train train.init="$tmp/same" train.steps=1 --out "$tmp/third" >"$tmp/out" 2>&1
check "and what they began with in their turn" test "$(grep -c '"init": *{' "$tmp/third/env.json")$(grep -c "\"file\": \"$tmp/run/best.safetensors\"" "$tmp/third/env.json")" = 21
check "config.json too" grep -qF "\"init\": \"$tmp/run\"" "$tmp/same/config.json"
expect 0 "^init +$tmp/run/last.safetensors, update 20\$" "a checkpoint" \
    train train.init="$tmp/run/last.safetensors" --out "$tmp/last" --dry-run
mkdir "$tmp/young"
cp "$tmp/run/config.json" "$tmp/run/last.safetensors" "$tmp/young"
expect 0 "^init +$tmp/young/last.safetensors, update 20\$" "a run without a validation" \
    train train.init="$tmp/young" --out "$tmp/last" --dry-run
check "of a dry run nothing is left" test ! -e "$tmp/last"
"$bin/cast_step" "$tmp/tiny.json" --init 5 --weights-out "$tmp/w" >/dev/null 2>&1
expect 0 '^ +taken \(46\): ' "weights of another program" train train.init="$tmp/w" --out "$tmp/last" --dry-run
check "of no update" has_line "init     $tmp/w"
bytes=
for _ in {1..10}; do put 8 0; done
put_file "$tmp/pt" '{"__metadata__":{"format":"pt"},"fc2.bias":{"dtype":"F64","shape":[10],"data_offsets":[0,80]}}'
expect 0 '^ +taken \(1\): fc2.bias$' "of a framework that names itself" \
    train train.init="$tmp/pt" --out "$tmp/last" --dry-run
expect 0 '^ +taken in part: pos.weight, the first 60 rows of 60, for 90 here$' "longer documents" \
    train train.init="$tmp/run" model.max_length=90 --out "$tmp/long" --dry-run
make_data "$tmp/text" text 40 9 23 60
expect 0 '^ +new \(3\): tok, fc2$' "another task" \
    train train.init="$tmp/run" task=text data.dir="$tmp/text" data.holdout=0 train.steps=2 --out "$tmp/text-run"
expect 0 '^ +left \(6\): blocks.0-1: attn.phi.bias attn.phi.weight attn.surrogate$' "another mechanism" \
    train train.init="$tmp/run" model.attention.type=full --out "$tmp/full" --dry-run

# ---- the same bits ----

"$bin/cast_train" "$tmp/tiny.json" --threads 2 train.init="$tmp/run" --out "$tmp/whole" >"$tmp/out" 2>&1
result $? "a run that began with weights" "$tmp/out"
check "is another than one without" test "$(weights "$tmp/whole/last.safetensors")" != "$(weights "$tmp/run/last.safetensors")"
cp -r "$tmp/run" "$tmp/source"
train train.init="$tmp/source" --out "$tmp/half" --stop-at 7 >"$tmp/out" 2>&1
rm -r "$tmp/source"
expect 0 'half: resuming at update 7$' "goes on without the weights that it began with" \
    train train.init="$tmp/source" --out "$tmp/half"
check "which are not read again" bash -c "! grep -q '^init' '$tmp/out'"
check "with the same bits" test "$(weights "$tmp/half/last.safetensors")" = "$(weights "$tmp/whole/last.safetensors")"
check "env.json still tells" grep -qF "\"file\": \"$tmp/source/best.safetensors\"" "$tmp/half/env.json"
expect 78 'another config: train.init ' "but not with others" train train.init="$tmp/run" --out "$tmp/half"

# ---- what is refused ----

expect 66 "train.init: $tmp/nowhere: cannot be read" "weights that are not there" train train.init="$tmp/nowhere" --out "$tmp/x"
mkdir "$tmp/empty"
expect 66 "train.init: $tmp/empty: is a directory, but not a run's" "a directory that is no run's" train train.init="$tmp/empty" --out "$tmp/x"
cp "$tmp/run/config.json" "$tmp/empty"
expect 66 'has saved nothing there yet' "a run without a checkpoint" train train.init="$tmp/empty" --out "$tmp/x"
head -c 3000 "$tmp/run/best.safetensors" >"$tmp/torn"
expect 65 "train.init: $tmp/torn: " "a torn file" train train.init="$tmp/torn" --out "$tmp/x"
cp "$tmp/run/best.safetensors" "$tmp/torn"
printf 'X' | dd of="$tmp/torn" bs=1 conv=notrunc seek=$(($(wc -c <"$tmp/torn") - 99)) 2>/dev/null
expect 65 "torn: is damaged" "a byte changed" train train.init="$tmp/torn" --out "$tmp/x"
expect 65 "tiny.json: not safetensors" "no safetensors" train train.init="$tmp/tiny.json" --out "$tmp/x"
expect 78 "'blocks.0.norm1.weight' is F(32|64) \[16\], but this model takes F(32|64) \[32\].*model.d \(16, now 32\)" \
    "another width" train train.init="$tmp/run" model.d=32 --out "$tmp/x"
expect 78 'test.safetensors: has nothing in common with this model' "data" \
    train train.init="$tmp/data/test.safetensors" --out "$tmp/x"
check "none of these began" test ! -e "$tmp/x/env.json"
expect 66 'train.init: 3: cannot be read' "a number, which is a name" train train.init=3 --out "$tmp/x"
