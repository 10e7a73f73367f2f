#!/bin/bash
# cast_train and what can be wrong: configs, data, checkpoints, directories, disks, numbers. Exit statuses are those of
# core/err.h, and nothing is lost.
set -u
. tests/training.sh
make_data "$tmp/data" listops 40 9 9 60
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "log_every": 5 } }
END
train=("$bin/cast_train" "$tmp/tiny.json" --out "$tmp/run")
"${train[@]}" >"$tmp/out" 2>&1
result $? "trains" "$tmp/out"
whole=$(hash_of "$tmp/run")

# ---- the command line and the config ----

expect 64 'no CONFIG' "no config" "$bin/cast_train"
expect 64 '--nope: no such option' "an unknown option" "${train[@]}" --nope
expect 64 '[-]threads: no such option' "an option behind one dash" "${train[@]}" -threads 1
expect 64 '--threads: expected a number' "a number of threads that is none" "${train[@]}" --threads 0
expect 64 'key=value' "an override without a value" "${train[@]}" train.lr
expect 66 'nowhere.json' "a missing config" "$bin/cast_train" "$tmp/nowhere.json"
echo '{ "base": "far.json" }' >"$tmp/based.json"
expect 66 'a=b/far.json: cannot be read' "nor in a directory whose name has an equals sign" "$bin/cast_train" "$tmp/a=b/far.json"
expect 66 "based.json: key 'base': $tmp/far.json: cannot be read" "a base that is missing" "$bin/cast_train" "$tmp/based.json"
mkdir "$tmp/bases"
echo '{ "train": { "lr": "fast" } }' >"$tmp/bases/far.json"
echo '{ "base": "far.json", "train": { "batch": 2 } }' >"$tmp/bases/near.json"
echo '{ "base": "bases/near.json", "task": "listops", "train": { "steps": -2 } }' >"$tmp/based.json"
expect 78 "based.json: key 'train.lr' .*got .fast. .it is in the base, $tmp/bases/far.json.$" "a wrong key of a base" \
    "$bin/cast_train" "$tmp/based.json" train.steps=2
expect 78 "based.json: key 'train.steps' must be [^(]*$" "and one of its own" "$bin/cast_train" "$tmp/based.json" train.lr=1e-3
echo '{ "base": "bases/near.json" }' >"$tmp/based.json"
expect 78 "based.json: key 'task' is missing; [^(]*$" "one that no file has, of which no base is blamed" "$bin/cast_train" "$tmp/based.json"
echo '{ "base": "tiny.json", "train.lr": 1e-3 }' >"$tmp/dotted.json"
expect 78 "dotted.json: key 'train.lr' is unknown; .* task\)$" "one of its own with a dot, whose section is the base's" "$bin/cast_train" "$tmp/dotted.json"
echo '{ "base": "tiny.json", "model.attention.clusters": 4 }' >"$tmp/dotted.json"
expect 78 "dotted.json: key 'model.attention.clusters' is unknown as one name: sections are objects \(got 4; " "or with two" "$bin/cast_train" "$tmp/dotted.json"
mkdir "$tmp/what is unknown"
sed 's/"train": {/&"clusters": 4,/' "$tmp/tiny.json" >"$tmp/what is unknown/tiny.json"
expect 78 "what is unknown/tiny.json: key 'train.clusters' is unknown; did you mean 'model.attention.clusters'. \(got 4; " "below a name that says so" \
    "$bin/cast_train" "$tmp/what is unknown/tiny.json"
expect 64 "'train.lr=1': CONFIG comes first" "a config behind its keys" "$bin/cast_train" train.lr=1 "$tmp/tiny.json"
expect 0 'attention' "a config without .json" "$bin/cast_train" "$tmp/tiny" --dry-run
expect 78 "'train.updates' is unknown; did you mean 'train.steps'" "a key as others call it" "${train[@]}" train.updates=3
expect 0 '^warning: train.epochs=3 has no say, as there are 20 updates' "epochs beside updates" \
    "${train[@]}" train.epochs=3 --dry-run
expect 0 '^lengths .* at most; longer than 20, and cut: [0-9.]* % of train, [0-9.]* % of val, [0-9.]* % of test$' "documents that are cut are told" \
    "${train[@]}" model.max_length=20 --out "$tmp/cut" --dry-run
"$bin/cast_data" generate listops --length 30..60 --depth 4 --train 8 --val 4 --test 4 --out "$tmp/longer" >"$tmp/log" 2>&1
expect 0 '; longer than 20, and cut: 100 % of train' "of all examples too" \
    "${train[@]}" model.max_length=20 data.dir="$tmp/longer" --out "$tmp/cut" --dry-run
expect 0 "^warning: [0-9]* % of the train examples are cut at model.max_length = 20: is $tmp/data the set" "and most of them twice" \
    "${train[@]}" model.max_length=20 --out "$tmp/cut" --dry-run
"$bin/cast_data" generate pathfinder --side 64 --train 8 --val 4 --test 4 --out "$tmp/wide-pictures" >"$tmp/log" 2>&1
expect 0 '^warning: 100 % of the train examples are cut at model.max_length = 1024' "pictures that are cut, at the length of the benchmark's" \
    "$bin/cast_train" configs/pathfinder.json data.dir="$tmp/wide-pictures" train.batch=4 --out "$tmp/cut" --dry-run
expect 78 "key 'model.colour' is unknown" "an unknown key" "${train[@]}" model.colour=3
expect 78 "'train.epochz' is unknown; did you mean 'train.epochs'" "a misspelt key" "${train[@]}" train.epochz=3
expect 78 "'model.attention.typ' is unknown; did you mean 'model.attention.type'" "a misspelt type" "${train[@]}" model.attention.typ=full
expect 78 "'train.lr' must be a number .* got \"fast\"" "a wrong type" "${train[@]}" train.lr=fast
expect 78 "'model.heads' must divide model.d = 16, got 3" "heads that do not divide d" "${train[@]}" model.heads=3
expect 78 'model.d / model.heads must be even, got 18 / 2 = 9' "rotary positions of an odd width" \
    "${train[@]}" model.d=18 model.positions=rope
expect 78 'sinusoidal positions need .* got 4000000 x 256' "a table of positions of 4 GB" \
    "${train[@]}" model.positions=sinusoidal model.max_length=4000000 model.d_emb=256
expect 78 "model.conv_residual keeps what a convolution adds, and there is none" "a residual convolution without one" \
    "${train[@]}" model.conv_residual=true
expect 78 "'model.attention.clusters' .* from 1 to" "0 clusters" "${train[@]}" model.attention.clusters=0
expect 78 'train.batch = 41 .* has 40' "a batch larger than the data" "${train[@]}" train.batch=41 --out "$tmp/b"
expect 78 'another config: train.lr \(0.005, now 0.1\)[^(]*$' "a run of another config" "${train[@]}" train.lr=0.1
expect 78 'another config: train.steps .*; only a run that began with train.schedule constant or rsqrt can be made longer$' \
    "a longer run, under a schedule with an end" bash -c '"$@" train.steps=1 >&2 && "$@" train.steps=2' bash \
    "${train[@]}" train.schedule=linear train.warmup=0 --out "$tmp/linear"
check "left as it was" test "$(hash_of "$tmp/run")" = "$whole"

# ---- keys of mechanisms ----

cat >"$tmp/plain.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "max_length": 60, "attention": {} } }
END
with() { # with TYPE KEY=VALUE...: a config of that mechanism
    local type=$1
    shift
    "$bin/cast_train" "$tmp/plain.json" model.attention.type="$type" "${@/#/model.attention.}" --out "$tmp/plain" --dry-run
}
refused() { # refused TYPE KEY ALLOWED VALUE...: named, with what is allowed
    local type=$1 key=$2 allowed=$3 value
    shift 3
    for value; do
        expect 78 "key 'model.attention.$key' must be $allowed, got $value\$" "$type: $key $value" \
            with "$type" "$key=$value"
    done
}
unknown() { # unknown TYPE KEY ANSWER
    expect 78 "key 'model.attention.$2' is unknown$3" "$1 has no $2" with "$1" "$2=4"
}
refused local window 'an integer from 1 to 1048576' 0 -1 1048577 2.5
refused clustered clusters 'an integer from 1 to 4096' 0 4097
refused clustered bits 'an integer from 1 to 64' 0 65
refused clustered iterations 'an integer from 1 to 1000' 0 1001
refused clustered hash_bias 'true or false' 1
refused i-clustered clusters 'an integer from 1 to 4096' 0 4097
refused i-clustered bits 'an integer from 1 to 64' 0 65
refused i-clustered iterations 'an integer from 1 to 1000' 0 1001
refused i-clustered hash_bias 'true or false' 0
refused i-clustered top_k 'an integer from 1 to 65536' 0 65537
refused lsh rounds 'an integer from 1 to 16' 0 17
refused lsh buckets 'an even integer from 2 to 65536' 0 7 65535 65537 65538
refused lsh chunk 'an integer from 2 to 1048576' 1 1048577
refused smyrf rounds 'an integer from 1 to 16' 0 17
refused smyrf cluster_size 'an integer from 1 to 1048576' 0 1048577
refused performer features 'an integer from 0 to 65536' -1 65537
refused linformer rank 'an integer from 1 to 65536' 0 65537
refused nystrom landmarks 'an integer from 1 to 4096' 0 4097
refused nystrom pinv_iterations 'an integer from 1 to 10' 0 11
refused nystrom conv_kernel '0 or an odd integer from 0 to 1023' -1 2 4 1022 1024 1025
unknown lsh clusters ' to lsh; those that have it: cast, clustered, i-clustered \(got 4; the keys here are type, rounds, buckets, chunk\)$'
unknown smyrf chunk ' to smyrf; those that have it: lsh \(got 4; the keys here are type, rounds, cluster_size\)$'
unknown linear rank ' to linear; those that have it: linformer \(got 4; the keys here are type\)$'
unknown performer rank ' to performer; those that have it: linformer \(got 4; the keys here are type, features\)$'
unknown clustered top_k ' to clustered; those that have it: i-clustered \(got 4; the keys here are type, clusters, bits, iterations, hash_bias\)$'
unknown lsh bucket "; did you mean 'model.attention.buckets'\?"
unknown nystrom landmark "; did you mean 'model.attention.landmarks'\?"
names=$("$bin/cast_train" --help | sed -n 's/^attention  *//p' | sed 's/ /, /g')
check "the mechanisms are told" grep -q '^cast, full, .*nystrom' <<<"$names"
for near in perfomer:performer Linear:linear linfomer:linformer nystroem:nystrom smirf:smyrf i_clustered:i-clustered; do
    expect 78 "'model.attention.type' must be one of $names, got \"${near%:*}\"; did you mean \"${near#*:}\"\?\$" \
        "a mechanism named ${near%:*}" with "${near%:*}"
done
expect 78 "'model.attention.type' must be one of $names, got \"bigbird\"\$" "a mechanism that there is not" with bigbird
taken() { # taken TYPE KEY=VALUE...: the largest values
    local type=$1
    shift
    expect 0 "^model +$type attention" "$type: $*" with "$type" "$@"
}
taken local window=1048576
taken clustered clusters=4096 bits=64 iterations=1000
taken i-clustered clusters=4096 bits=64 iterations=1000 top_k=65536
taken lsh rounds=16 buckets=65536 chunk=1048576
taken smyrf rounds=16 cluster_size=1048576
taken performer features=65536
taken linformer rank=65536
taken nystrom landmarks=4096 pinv_iterations=10 conv_kernel=1023

# ---- data ----

expect 66 "$tmp/none: no prepared data, and none are made: the benchmark's have 501 tokens or more, and this model takes 60: run 'cast_data generate listops --length 15..60 --out $tmp/none'" \
    "missing data of other lengths" "$bin/cast_train" "$tmp/tiny.json" data.dir="$tmp/none" --out "$tmp/unmade"
check "are not made" test ! -e "$tmp/none"
expect 66 "have 1024 tokens or more, and this model takes 512: run 'cast_data generate pathfinder --out $tmp/none' for such, which are cut" \
    "missing pictures for a model that is too short" "$bin/cast_train" configs/pathfinder.json model.max_length=512 data.dir="$tmp/none" --out "$tmp/unmade"
check "nor is a run" test ! -e "$tmp/unmade"
mkdir "$tmp/half"
cp "$tmp/data"/{train,val}.safetensors "$tmp/half/"
expect 66 "$tmp/half/train.safetensors is there, but $tmp/half/test.safetensors is missing" "a split that is missing" \
    "$bin/cast_train" "$tmp/tiny.json" data.dir="$tmp/half" --out "$tmp/unmade"
mv "$tmp/half/train.safetensors" "$tmp/half/test.safetensors"
expect 66 "$tmp/half/val.safetensors: is there without train.safetensors, and is not of what would be generated here .its source: not known." "train that is missing" \
    "$bin/cast_train" configs/listops.json data.dir="$tmp/half" --out "$tmp/unmade"
check "which leaves the others" cmp "$tmp/half/val.safetensors" "$tmp/data/val.safetensors"
mkdir -p "$tmp/official/listops" "$tmp/made"
touch "$tmp/official/listops/basic_"{train,val,test}.tsv
"$bin/cast_data" generate listops --train 8 --val 4 --test 4 --out "$tmp/made" >"$tmp/log" 2>&1
rm "$tmp/made/train.safetensors"
expect 66 'made/val.safetensors: .* is not of what would be imported here .its source: generated' "or an import would replace generated ones" \
    env CAST_DATA="$tmp/official" "$bin/cast_train" configs/listops.json data.dir="$tmp/made" --out "$tmp/unmade"
make_data "$tmp/small" pathx 8 4 4 60
expect 65 'small/train.safetensors: is of task pathx, not of pathfinder' "data of another task with the same sizes" \
    "$bin/cast_train" configs/pathfinder.json data.dir="$tmp/small" train.batch=4 --out "$tmp/unmade"
expect 64 'a directory without a name' "an --out of no name" "$bin/cast_train" "$tmp/tiny.json" --out '' --dry-run
expect 66 'cast_data import image' "missing data" \
    "$bin/cast_train" "$tmp/tiny.json" task=image data.dir="$tmp/nowhere" --out "$tmp/none"
mkdir -p "$tmp/official/image"
touch "$tmp/official/image"/{data_batch_{1..5},test_batch}.bin
expect 66 "run 'cast_data import image $tmp/official/image --out $tmp/nowhere'" "missing data that could be imported" \
    env CAST_DATA="$tmp/official" "$bin/cast_eval" results/weights/image.safetensors data.dir="$tmp/nowhere"
expect 78 "'data.dir': ~/x: ~ is not known here; write the whole path, $HOME/x$" "a home that the shell left as it is" "${train[@]}" 'data.dir=~/x' --out "$tmp/none"
expect 78 "'data.dir': ~/x: ~ is not known" "nor where sizes are read from the data" "${train[@]}" task=custom 'data.dir=~/x' --out "$tmp/none"
expect 78 "'train.init': ~/x" "of weights, too" "${train[@]}" 'train.init=~/x' --out "$tmp/none"
expect 66 'cast_data import image' "missing data, of a dry run" \
    "$bin/cast_train" "$tmp/tiny.json" task=image data.dir="$tmp/nowhere" --out "$tmp/none2" --dry-run
expect 65 'not those of task retrieval' "data of another task" \
    "$bin/cast_train" "$tmp/tiny.json" task=retrieval --out "$tmp/other"
expect 0 'test accuracy of best' "any data of this form trains as custom" \
    "$bin/cast_train" "$tmp/tiny.json" task=custom --out "$tmp/custom"
cp -r "$tmp/data" "$tmp/moved"
sed -i "s#$tmp/data#$tmp/gone#" "$tmp/custom/config.json"
expect 0 'accuracy' "with other attention, where its data have moved" \
    "$bin/cast_eval" "$tmp/custom" data.dir="$tmp/moved" model.attention.summaries=false
expect 66 "task custom reads its sizes from the data: .*nowhere/train.safetensors: .* looked for from $PWD; .* data.dir=DIR" "custom without data" \
    "$bin/cast_train" "$tmp/tiny.json" task=custom data.dir="$tmp/nowhere" --out "$tmp/none3"
expect 78 "'data.holdout' is unknown" "held-out validation of a task with its own" "${train[@]}" data.holdout=0.1
cp -r "$tmp/data" "$tmp/short"
truncate -s -3 "$tmp/short/val.safetensors"
expect 65 'short/val.safetensors' "data cut short" "${train[@]}" data.dir="$tmp/short" --out "$tmp/cut"

# ---- the directory ----

expect 73 'tiny.json: cannot be created' "a run directory below a file" "${train[@]}" --out "$tmp/tiny.json/run"
expect 73 '/proc/nope' "a read-only run directory" "${train[@]}" --out /proc/nope/run
mkdir "$tmp/locked"
(
    exec 9>"$tmp/locked/lock"
    flock 9
    echo 'process 123 on elsewhere' >&9
    expect 73 'is in use by process 123 on elsewhere' "a run directory in use" "${train[@]}" --out "$tmp/locked"
)
expect 73 'checkpoints of .* take .* more there, and .* are free: File too large' "no room for a checkpoint" \
    with_small_files "${train[@]}" --out "$tmp/full"
check "before anything is computed" test ! -e "$tmp/full/metrics.jsonl"

# ---- a disk that fills up on the way ----

mkfifo "$tmp/told" # a pipe has no limit
cat "$tmp/told" >"$tmp/out" &
reader=$!
"$bin/cast_train" "$tmp/tiny.json" --out "$tmp/fills" train.steps=200000 train.eval_every=50 >"$tmp/told" 2>&1 &
pid=$!
until [ -e "$tmp/fills/last.safetensors" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
prlimit --fsize=4096: --pid $pid
until grep -q 'NOT saved' "$tmp/out" || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -TERM $pid
wait $pid
status=$?
wait $reader
[ $status -eq 74 ] && grep -q 'is lost' "$tmp/out"
result $? "a state that cannot be saved: exit 74, said aloud" "$tmp/out"
expect 0 'resuming at update [1-9]' "and the checkpoint before it is whole" \
    "$bin/cast_train" "$tmp/tiny.json" --out "$tmp/fills" train.steps=200000 train.eval_every=50 --stop-at 1

# ---- checkpoints ----

cp -r "$tmp/run" "$tmp/spoilt"
advice='To go on from update [0-9]*: cp .* To start anew, remove the run.s directory, or use another --out$'
spoil() { # spoil NAME COMMAND...: expects that the checkpoint that COMMAND made is refused, and untouched
    local name=$1 was
    shift
    cp "$tmp/run/last.safetensors" "$tmp/spoilt/last.safetensors"
    "$@"
    was=$(hash_of "$tmp/spoilt")
    expect 65 "$advice" "$name" "${train[@]}" --out "$tmp/spoilt"
    [ "$(hash_of "$tmp/spoilt")" = "$was" ] || result 1 "$name: is left alone"
}
last=$tmp/spoilt/last.safetensors
flip() { printf '\x55\xaa\x55' | dd of="$last" bs=1 seek="$1" conv=notrunc 2>/dev/null; }
spoil "a truncated checkpoint" truncate -s -100 "$last"
spoil "a checkpoint cut to a few bytes" truncate -s 5 "$last"
spoil "an empty checkpoint" truncate -s 0 "$last"
spoil "an altered checkpoint" flip 20000
spoil "an altered header" flip 40
spoil "no checkpoint at all" cp "$tmp/tiny.json" "$last"
advice='It is whole. To start anew, remove the run.s directory, or use another --out$'
"$bin/cast_train" "$tmp/tiny.json" model.d=32 --out "$tmp/wide" >"$tmp/out" 2>&1
spoil "a checkpoint of another model" cp "$tmp/wide/last.safetensors" "$last"
"$bin/cast_train" "$tmp/tiny.json" train.seed=2 --out "$tmp/seed" >"$tmp/out" 2>&1
spoil "a checkpoint of another run" cp "$tmp/seed/last.safetensors" "$last"

"$bin/cast_train" "$tmp/tiny.json" train.eval_every=4 --out "$tmp/from-best" >"$tmp/out" 2>&1
want=$(hash_of "$tmp/from-best")
cp "$tmp/from-best/best.safetensors" "$tmp/from-best/last.safetensors"
"$bin/cast_train" "$tmp/tiny.json" train.eval_every=4 --out "$tmp/from-best" >"$tmp/out" 2>&1
[ "$(hash_of "$tmp/from-best")" = "$want" ]
result $? "going on from the best gives the same bits" "$tmp/out"

# ---- numbers ----

wild=("$bin/cast_train" "$tmp/tiny.json" train.lr=1000 train.weight_decay=10 train.steps=100)
expect 70 'update [0-9]+: loss .*not (be )?finite' "numbers that are not finite stop the run" "${wild[@]}" --out "$tmp/wild"
check "with the examples at hand" grep -qE 'training examples of update [0-9]+:( [0-9]+){4}$' "$tmp/out"
bad=$(sed -nE 's/.*cast_train: update ([0-9]+): loss.*/\1/p' "$tmp/out")
"${wild[@]}" --out "$tmp/tame" --stop-at $((bad - 1)) >"$tmp/out" 2>&1
[ "$(hash_of "$tmp/wild")" = "$(hash_of "$tmp/tame")" ]
result $? "before weights are touched" "$tmp/out"

# ---- a reader that goes away ----

{
    "${train[@]}" --out "$tmp/pipe" 2>&1
    echo $? >"$tmp/status"
} | head -n 1 >"$tmp/out"
[ "$(cat "$tmp/status")" = 0 ] && [ "$(hash_of "$tmp/pipe")" = "$whole" ]
result $? "a closed pipe stops nothing" "$tmp/out"
