#!/bin/bash
# cast_step, cast_data and cast_bench from the command line: what they promise, and what they refuse. The others have
# scripts of their own.
set -u
. tests/training.sh
cat >"$tmp/tiny.json" <<END
{ "task": "listops",
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 24, "max_length": 64,
             "attention": { "clusters": 4 } },
  "train": { "batch": 2, "lr": 1e-3 } }
END
for program in cast_train cast_sweep cast_step cast_data cast_bench cast_eval cast_viz cast_export cast_report; do
    expect 0 "^usage: $program" "$program --help" "$bin/$program" --help
    check "within 100 columns" awk '/^keys,/ { exit } length > 100 { exit 1 }' "$tmp/out"
    expect 0 "^$program [0-9]+\.[0-9]+\.[0-9]+" "$program --version" "$bin/$program" --version
    [ -e .git ] && git describe --always >"$tmp/commit" 2>&1 && check "with its commit" grep -qE '^commit [0-9a-f]{12}(-dirty)?$' "$tmp/out"
done

# A pipe whose reader has ended before anything is written.
exec 3> >(exec true)
wait $!
"$bin/cast_train" --help keys >&3 2>"$tmp/err"
echo $? >"$tmp/status"
exec 3>&-
check "nobody is told that nobody reads" test ! -s "$tmp/err" -a "$(cat "$tmp/status")" = 74

# ---- cast_step ----

# A batch of two sequences of LENGTH and 3 tokens; ids beyond the second's are not ids at all.
make_batch() { # make_batch FILE LENGTH LABEL ID
    local i header
    bytes=''
    for ((i = 0; i < 8; i++)); do put 4 $((i % 15 + 1)); done
    for ((i = 0; i < 3; i++)); do put 4 "$4"; done
    for ((i = 0; i < 5; i++)); do put 4 -7; done
    put 4 "$2" && put 4 3
    put 4 1 && put 4 "$3"
    header='{"tokens":{"dtype":"I32","shape":[2,8],"data_offsets":[0,64]},'
    header+='"lengths":{"dtype":"I32","shape":[2],"data_offsets":[64,72]},'
    header+='"labels":{"dtype":"I32","shape":[2],"data_offsets":[72,80]}}'
    put_file "$1" "$header"
}
step=("$bin/cast_step" "$tmp/tiny.json")
w=$tmp/w.safetensors b=$tmp/b.safetensors o=$tmp/o.safetensors
make_batch "$b" 8 9 3
check "--init writes weights" "${step[@]}" --init 1 --weights-out "$w"
check "one pass" "${step[@]}" --weights "$w" --batch "$b" --out "$o"
for tensor in logits loss grad.tok.weight grad.blocks.0.attn.surrogate clusters.0; do
    check "the output has $tensor" grep -aq "\"$tensor\":" "$o"
done
check "updates" "${step[@]}" --weights "$w" --batch "$b" --steps 3 --weights-out "$tmp/w3"
check "change the weights" bash -c "! cmp -s '$w' '$tmp/w3'"
wild=(train.lr=1000 train.weight_decay=1 train.schedule=constant train.warmup=0)
cp "$w" "$tmp/same"
expect 70 'nothing is written' "updates that leave what is no number" \
    "${step[@]}" "${wild[@]}" --weights "$tmp/same" --batch "$b" --steps 200 --weights-out "$tmp/same" --out "$tmp/none"
check "leave the weights" cmp "$w" "$tmp/same"
check "and no results" test ! -e "$tmp/none"
expect 64 'no CONFIG' "no config" "$bin/cast_step"
expect 64 'init makes first weights alone' "first weights, and results of others" \
    "${step[@]}" --init 1 --weights "$w" --batch "$b" --out "$tmp/none" --weights-out "$tmp/none-w"
check "makes neither" test ! -e "$tmp/none" -a ! -e "$tmp/none-w"
expect 64 'out and --weights-out are both' "one file for two outputs" \
    "${step[@]}" --weights "$w" --batch "$b" --steps 1 --out "$tmp/none" --weights-out "$tmp/none"
expect 64 '--weights and --batch' "no weights" "${step[@]}" --out "$o"
expect 64 'out is needed' "no results" "${step[@]}" --weights "$w" --batch "$b"
expect 64 '--weights-out' "--steps without a place for weights" "${step[@]}" --weights "$w" --batch "$b" --steps 2
expect 64 '--steps' "a number of steps that is none" "${step[@]}" --weights "$w" --batch "$b" --steps many --weights-out "$o"
expect 66 'nowhere' "weights that are not there" "${step[@]}" --weights "$tmp/nowhere" --batch "$b" --out "$o"
expect 65 'another model' "weights of another model" "${step[@]}" model.depth=2 --weights "$w" --batch "$b" --out "$o"
make_batch "$tmp/bad" 0 9 3
expect 65 'sequence 0 has 0 tokens' "a length of 0" "${step[@]}" --weights "$w" --batch "$tmp/bad" --out "$o"
check "weights of a shorter model" "${step[@]}" model.max_length=7 --init 1 --weights-out "$tmp/w7"
expect 65 'allowed are 1 to 7' "a length above max_length" \
    "${step[@]}" model.max_length=7 --weights "$tmp/w7" --batch "$b" --out "$o"
make_batch "$tmp/bad" 8 10 3
expect 65 'classes 0 to 9' "a label that is none" "${step[@]}" --weights "$w" --batch "$tmp/bad" --out "$o"
make_batch "$tmp/bad" 9 9 3
expect 65 'sequence 0 has 9 tokens, tokens has room for 8' "a length above the batch's" \
    "${step[@]}" --weights "$w" --batch "$tmp/bad" --out "$o"
cp "$w" "$tmp/nan"
edit "$tmp/nan" tok.weight "$(repeat 1536 '\xff')" 0
expect 70 'pass 1: loss nan.*nothing is written' "weights that are no numbers" \
    "${step[@]}" --weights "$tmp/nan" --batch "$b" --out "$tmp/none"
check "without results" test ! -e "$tmp/none"
make_batch "$tmp/bad" 8 9 16
expect 65 'tokens: sequence 1 has 16 at 0, allowed are 0 to 15' "an id that is none" "${step[@]}" --weights "$w" --batch "$tmp/bad" --out "$o"

# One sequence of 4 tokens, of which one is masked by MASK and was TARGET.
make_masked() { # make_masked FILE MASK TARGET
    local header
    bytes=''
    put 4 1 && put 4 2 && put 4 3 && put 4 4
    put 4 0 && put 4 "$2" && put 4 0 && put 4 0
    put 4 -7 && put 4 "$3" && put 4 -7 && put 4 -7
    put 4 4
    header='{"tokens":{"dtype":"I32","shape":[1,4],"data_offsets":[0,16]},'
    header+='"mask":{"dtype":"I32","shape":[1,4],"data_offsets":[16,32]},'
    header+='"targets":{"dtype":"I32","shape":[1,4],"data_offsets":[32,48]},'
    header+='"lengths":{"dtype":"I32","shape":[1],"data_offsets":[48,52]}}'
    put_file "$1" "$header"
}
masked=("${step[@]}" train.objective=masked --weights "$tmp/wm" --out "$tmp/om")
check "weights for masked training" "${step[@]}" train.objective=masked --init 1 --weights-out "$tmp/wm"
make_masked "$tmp/bm" 1 15
check "a pass of it" "${masked[@]}" --batch "$tmp/bm"
check "logits of all tokens" grep -aq '"logits":{"dtype":"F[0-9]*","shape":\[1,4,16\]' "$tmp/om"
make_masked "$tmp/bm" 1 16
expect 65 'targets: sequence 0 has 16 at 1, allowed are 0 to 15' "a target that is none" "${masked[@]}" --batch "$tmp/bm"
make_masked "$tmp/bm" 2 3
expect 65 'mask: sequence 0 has 2 at 1, allowed are 0 to 1' "a mask that is none" "${masked[@]}" --batch "$tmp/bm"
make_masked "$tmp/bm" 0 -7
expect 65 'mask: no token is masked' "nothing masked" "${masked[@]}" --batch "$tmp/bm"
expect 65 "mask" "a batch of labels" "${masked[@]}" --batch "$b"

cp "$w" "$tmp/w2"
expect 64 'w2 is one of the inputs' "results over the weights" "${step[@]}" --weights "$tmp/w2" --batch "$b" --out "$tmp/w2"
expect 64 'is the batch itself' "weights over the batch" \
    "${step[@]}" --weights "$w" --batch "$b" --steps 1 --weights-out "$b"
check "updated weights over the weights" "${step[@]}" --weights "$tmp/w2" --batch "$b" --steps 1 --weights-out "$tmp/w2"
expect 73 'nowhere' "an output that cannot be made" "${step[@]}" --weights "$w" --batch "$b" --out "$tmp/nowhere/o"

# ---- cast_data ----

data=("$bin/cast_data")
expect 0 'listops: 30 train, 5 val, 6 test examples$' "generates ListOps" \
    "${data[@]}" generate listops --out "$tmp/listops" --train 30 --val 5 --test 6
expect 0 'vocabulary' "shows what is there" "${data[@]}" show "$tmp/listops"
expect 0 '= [0-9]' "shows one example" "${data[@]}" show "$tmp/listops" --index 3
expect 0 '' "verifies" "${data[@]}" verify "$tmp/listops"
"${data[@]}" generate listops --out "$tmp/again" --train 30 --val 5 --test 6 >/dev/null 2>&1
check "the same from the same seed" cmp "$tmp/listops/train.safetensors" "$tmp/again/train.safetensors"
expect 0 '' "writes LRA's files" \
    "${data[@]}" generate listops --out "$tmp/again" --train 30 --val 5 --test 6 --tsv "$tmp/tsv"
check "with their header" test "$(head -n 1 "$tmp/tsv/basic_val.tsv")" = $'Source\tTarget\r'
expect 0 'the official files have 96000, 2000 and 2000' "reads them" "${data[@]}" import listops "$tmp/tsv" --out "$tmp/read"
hash_shown() { "${data[@]}" show "$1/train.safetensors" | grep 'hash '; }
equal "as they were" "$(hash_shown "$tmp/read")" "$(hash_shown "$tmp/again")"
expect 64 'text takes no --tsv|text cannot be generated' "--tsv of a task without" \
    "${data[@]}" generate text --out "$tmp/x" --tsv "$tmp/x"
expect 64 '--tsv' "--tsv of an import" "${data[@]}" import listops "$tmp/tsv" --out "$tmp/x" --tsv "$tmp/x"

mkdir -p "$tmp/aclImdb"/{train,test}/{neg,pos} "$tmp/aan"
for place in "$tmp/aclImdb"/*/*; do printf 'na\xc3\xafve\t\x1b[31m\xff \\\x00\n' >"$place/0_1.txt"; done
expect 0 'text: 2 train, 2 val, 2 test' "imports reviews" "${data[@]}" import text "$tmp/aclImdb" --out "$tmp/text"
expect 0 '^naïve\\t\\x1b\[31m\\xff \\\\\\x00\\n$' "shows a review as text" "${data[@]}" show "$tmp/text" --index 1
check "with its label" grep -qF 'positive (label 1)' "$tmp/out"
expect 0 'test.safetensors: 2 examples, 34 tokens: OK' "verifies reviews" "${data[@]}" verify "$tmp/text"
for split in train eval test; do printf '1\tA\tB\talpha\tbe"ta\n' >"$tmp/aan/new_aan_pairs.$split.tsv"; done
expect 0 'pairs: 1 train' "imports pairs" "${data[@]}" import retrieval "$tmp/aan" --out "$tmp/pairs"
expect 0 '^be"ta$' "shows a pair as text" "${data[@]}" show "$tmp/pairs" --index 0
check "with one label" test "$(grep -c '^= one cites the other (label 1)$' "$tmp/out")" = 1
expect 0 '1 examples, 2 documents, 10 tokens' "shows pairs" "${data[@]}" show "$tmp/pairs/train.safetensors"
expect 0 'val.safetensors: 1 examples, 10 tokens: OK' "verifies pairs" "${data[@]}" verify "$tmp/pairs"
printf '2\tA\tB\talpha\tbeta\n' >"$tmp/aan/new_aan_pairs.eval.tsv"
expect 65 'eval.tsv: line 1: expected the label 0, 1' "a wrong table" "${data[@]}" import retrieval "$tmp/aan" --out "$tmp/x"
# Texts of 1 to 20 letters, each in a pair with the next longer one.
for ((i = 1; i < 20; i++)); do
    printf '%d\t%d\t%d\t%s\t%s\n' $((i % 2)) $i $((i + 1)) "$(repeat $i x)" "$(repeat $((i + 1)) x)"
done | tee "$tmp/aan"/new_aan_pairs.{train,eval,test}.tsv >/dev/null
expect 0 '^  size +19 examples, 20 documents, 210 tokens,' "shows what pairs share, once" \
    bash -c "'$bin/cast_data' import retrieval '$tmp/aan' --out '$tmp/shared' && '$bin/cast_data' show '$tmp/shared'"
check "their lengths" \
    grep -qxF 'lengths: mean 10.5, 0 %: 1, 5 %: 1, 25 %: 5, 50 %: 10, 75 %: 15, 95 %: 19, 100 %: 20' "$tmp/out"
for ((i = 1; i < 20; i += 2)); do
    check "$i and $((i + 1)) together" grep -qE "^  $i - $((i + 1)) +10.00 % +2  #{40}\$" "$tmp/out"
done
check "labels of examples" \
    grep -qxF 'labels: 2 classes; always the most frequent one would be right in 52.63 %' "$tmp/out"
make_data "$tmp/own" custom 9 3 3 20
expect 0 'train.safetensors: 9 examples' "verifies data of one's own" "${data[@]}" verify "$tmp/own"
cp -r "$tmp/own" "$tmp/unlike"
cp "$tmp/text/test.safetensors" "$tmp/unlike/test.safetensors"
expect 65 'test.safetensors: vocabulary 257, 2 classes, .* are not those of the other splits' "splits that are unlike" \
    "${data[@]}" verify "$tmp/unlike"
expect 0 '= label [0-9]$' "shows it" "${data[@]}" show "$tmp/own" --index 2
expect 64 'there is no importer: scripts/make_custom_dataset.py writes' "but cannot import it" "${data[@]}" import custom "$tmp/own" --out "$tmp/x"
expect 0 '' "generates Pathfinder, and its official files" "${data[@]}" generate pathfinder --out "$tmp/paths" \
    --train 30 --val 5 --test 5 --difficulty easy --png "$tmp/tree"
expect 0 'two snakes' "shows what is there" "${data[@]}" show "$tmp/paths"
expect 0 '\(label [01]\)' "shows one picture" "${data[@]}" show "$tmp/paths" --index 3
expect 0 'the official files have 160000, 20000 and 20000' "imports these files" "${data[@]}" import pathfinder "$tmp/tree" --out "$tmp/imported"
expect 0 '' "verifies" "${data[@]}" verify "$tmp/imported"
expect 64 'listops takes no --side' "an option of another task" "${data[@]}" generate listops --out "$tmp/x" --side 32
expect 64 '32, 64, 128 or 256' "a side that is none" "${data[@]}" generate pathx --out "$tmp/x" --side 33
expect 73 "a directory's name is empty" "pictures into no directory" "${data[@]}" generate pathfinder --out "$tmp/x" \
    --train 8 --val 1 --test 1 --png ''
check "which makes nothing" test ! -e "$tmp/x"
expect 64 '' "no command" "${data[@]}"
expect 64 'out DIR is missing' "a set without a place" "${data[@]}" generate listops
expect 64 "'more' is one argument too many" "words that mean nothing" "${data[@]}" import listops "$tmp/tsv" more --out "$tmp/x"
expect 64 'expected: cast_data show' "nothing to show" "${data[@]}" show
expect 64 'examples in all, expected at most' "more than numbers for them" \
    "${data[@]}" generate listops --out "$tmp/x" --train 2000000000 --val 2000000000 --test 1
cp -r "$tmp/own" "$tmp/named"
sed -i 's/"task":"custom"/"task":"pathx" /' "$tmp/named"/*.safetensors
expect 65 'are not those of pathx' "data that are not what they call themselves" "${data[@]}" verify "$tmp/named"
expect 64 'nonsense' "an unknown task" "${data[@]}" generate nonsense --out "$tmp/x"
expect 66 'nowhere' "import from nowhere" "${data[@]}" import image "$tmp/nowhere" --out "$tmp/x"
printf '\x20' | dd of="$tmp/listops/val.safetensors" bs=1 seek=400 conv=notrunc 2>/dev/null
expect 65 'val.safetensors' "a byte changed" "${data[@]}" verify "$tmp/listops"

# ---- cast_bench ----

expect 0 '"samples_per_s":.*"tokens_per_s":.*"gflops":.*"peak_gflops":.*"peak_rss_mb":' "JSON with the promised keys" \
    "$bin/cast_bench" "$tmp/tiny.json" --json --seconds 0.01 --threads 1
expect 0 '"threads":1,' "on as many threads as Slurm gives" \
    env SLURM_CPUS_PER_TASK=1 "$bin/cast_bench" "$tmp/tiny.json" --json --seconds 0.01
expect 0 'full +64' "a row a mechanism" \
    "$bin/cast_bench" "$tmp/tiny.json" --mechanisms cast,full --seconds 0.01 --threads 1
expect 0 '^  full +64 +100.00 % +0.00 % +-$' "beside exact attention, a row a mechanism" \
    "$bin/cast_bench" "$tmp/tiny.json" --mechanisms local,full --approximation --threads 1
check "with the weight that is kept" grep -qE '^  local +64 +[0-9.]+ % +0.00 % +100.00 %$' "$tmp/out"
expect 0 '"error":.*"config":' "as JSON" "$bin/cast_bench" "$tmp/tiny.json" --approximation --json --threads 1
# Where a token sees itself alone: a key is like any other of N. Exact output has the variance e / N of as many values,
# whose weights are exp of N(0,1), and 1 / d of keys and values that are of the same token.
for seed in 1 2; do
    "$bin/cast_bench" "$tmp/tiny.json" --approximation --threads 1 train.seed=$seed model.d=64 model.max_length=256 \
        model.attention='{"type": "local", "window": 1}' >"$tmp/out" 2>&1
    # shellcheck disable=SC2016
    check "of N(0,1), each drawn by itself, seed $seed" awk '$1 == "all" {
        error = $2 / 100 * sqrt(exp(1) / 256 + 1 / 64); kept = $4 / 100 * 256
        good = error > 0.9 && error < 1.1 && kept > 0.5 && kept < 2 } END { exit !good }' "$tmp/out"
done
expect 64 'no --seconds' "for no time" "$bin/cast_bench" "$tmp/tiny.json" --approximation --seconds 1
make_data "$tmp/data/listops" listops 9 5 5 30
expect 0 ' samples/s' "on the task's own examples" \
    "$bin/cast_bench" "$tmp/tiny.json" --data data.dir="$tmp/data/listops" --seconds 0.01 --threads 1
expect 64 'data' "whose lengths are not given" "$bin/cast_bench" "$tmp/tiny.json" --data --lengths 16
expect 0 '^ +1 +3 .* % .* % .* %$' "threads, and what is lost" "$bin/cast_bench" "$tmp/tiny.json" --scaling --seconds 0.01 --threads 3
check "1, 2 and 3 of them" test "$(awk '/%$/ { printf "%s ", $2 }' "$tmp/out")" = "1 2 3 "
expect 0 '"threads":2,.*"lost_waiting":.*"lost_serial":.*"lost_slower":' "as JSON" \
    "$bin/cast_bench" "$tmp/tiny.json" --scaling --json --seconds 0.01 --threads 2
(cd "$tmp" && cp tiny.json ./-odd.json)
(cd "$tmp" && expect 0 '^ +1 +2 ' "a config whose name begins with a dash" \
    "$bin/cast_bench" --scaling --seconds 0.01 --threads 2 -- -odd.json)
expect 64 '^cast_bench: --lengths: one of the values is empty' "a list of nothing" \
    "$bin/cast_bench" "$tmp/tiny.json" --lengths= --seconds 0.01 --threads 1
expect 64 "is empty" "a value of nothing" "$bin/cast_bench" "$tmp/tiny.json" --lengths 16,,32 --seconds 0.01 --threads 1
expect 64 "lengths: expected a number" "a length that is none" \
    "$bin/cast_bench" "$tmp/tiny.json" --lengths 16,long --seconds 0.01 --threads 1
expect 64 'did you mean "full"' "a misspelt mechanism" \
    "$bin/cast_bench" "$tmp/tiny.json" --mechanisms cast,ful --seconds 0.01 --threads 1
check "before anything is measured" bash -c "! grep -q '^  cast' '$tmp/out'"
expect 64 'no CONFIG given' "seconds of nothing" "$bin/cast_bench" --seconds 1
expect 64 'one mechanism' "of several mechanisms" "$bin/cast_bench" "$tmp/tiny.json" --scaling --mechanisms cast,full
four=("$bin/cast_bench" "$tmp/tiny.json" --seconds 0.01 --threads 1 model.attention.clusters=four)
expect 78 "ended with status 78, for the reason above" "a key that is wrong for one mechanism" "${four[@]}" --mechanisms cast
expect 0 'full +64 +[0-9]' "is not given to another" "${four[@]}" --mechanisms cast,full
check "but is to this one" grep -q 'cast .*ended with status 78, for the reason above' "$tmp/out"
expect 78 "'model.attention.clusters' is unknown" "a key that no mechanism of the list has" "${four[@]}" --mechanisms full,naive
expect 78 "'model.attention.clusterz' is unknown; did you mean 'model.attention.clusters'" "a misspelt key" \
    "${four[@]}" model.attention.clusterz=4 --mechanisms full,cast
sed 's/"clusters": 4/"clusters": "four"/' "$tmp/tiny.json" >"$tmp/four.json"
expect 0 'cast .*ended with status 78, for the reason above' "CONFIG's keys stay with its mechanism" \
    "$bin/cast_bench" "$tmp/four.json" --seconds 0.01 --threads 1 --mechanisms cast,full
check "others have their defaults" grep -qE 'full +64 +[0-9]' "$tmp/out"
expect 0 'cast +64 +[0-9]' "cast too" \
    "$bin/cast_bench" "$tmp/four.json" --seconds 0.01 --threads 1 --mechanisms cast model.attention.clusters=4
expect 0 "model.max_length.* must be an integer" "a length that no config has, beside one that it may" \
    "$bin/cast_bench" "$tmp/tiny.json" --lengths 16,2000000000 --seconds 0.01 --threads 1
expect 78 'ended with status 78, for the reason above' "that alone" "$bin/cast_bench" "$tmp/tiny.json" --lengths 2000000000 --seconds 0.01 --threads 1
expect 78 "'model.attention.type'" "an unknown mechanism" "$bin/cast_bench" "$tmp/tiny.json" model.attention.type=fulll
