#!/bin/bash
# cast_eval from the command line: the figures of training again, what may be swapped in, and what is refused.
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
eval=("$bin/cast_eval")
train --out "$tmp/run" >"$tmp/log" 2>&1
result $? "a run to look at" "$tmp/log"

expect 0 '^usage: cast_eval' "help" "${eval[@]}" --help
expect 0 '^cast_eval [0-9]+\.[0-9]+\.[0-9]+$' "version" "${eval[@]}" --version

# ---- the figures of training ----


# Of metrics.jsonl and of the program's JSON, with as many digits as both have in float and in double.
nine() { read -r a l && printf '%.9g %.9g\n' "$a" "$l"; }
measured() { sed -n "s/.*\"which\": \"$1\", \"accuracy\": \([^,]*\), \"loss\": \([^,]*\),.*/\1 \2/p" "$tmp/run/metrics.jsonl" | nine; }
evaluated() { sed -n 's/^{[^{]*"accuracy":\([^,]*\),"loss":\([^,]*\),.*/\1 \2/p' "$tmp/json" | nine; }
for which in best last; do
    line=$(grep "^test accuracy of $which" "$tmp/log")
    option=()
    if [ $which = last ]; then option=(--last); fi
    expect 0 '^test accuracy' "evaluates $which" "${eval[@]}" "$tmp/run" "${option[@]}"
    check "prints what cast_train printed" has_line "$line"
    check "with its standard error" grep -qE '^test accuracy of [^%]* ± [0-9.]+ %' "$tmp/out"
    check "and says so" grep -qx 'as cast_train measured it' "$tmp/out"
    "${eval[@]}" "$tmp/run" "${option[@]}" --json >"$tmp/json" 2>&1
    check "to the last digit" test "$(evaluated)" = "$(measured $which)"
done
"${eval[@]}" "$tmp/run" --json --threads 1 >"$tmp/one" 2>"$tmp/log"
"${eval[@]}" "$tmp/run" --json --threads 2 >"$tmp/two" 2>"$tmp/log" # where two threads take turns it says so
check "the same at two threads" cmp "$tmp/one" "$tmp/two"
check "which is an accuracy" grep -q '"accuracy":' "$tmp/one"
train --out "$tmp/norm" model.norm=batch >"$tmp/log" 2>&1
"${eval[@]}" "$tmp/norm" >"$tmp/out" 2>&1
check "the same with batch norm's running statistics" has_line "$(grep '^test accuracy of best' "$tmp/log")"
expect 0 'test accuracy of checkpoint' "a checkpoint alone" "${eval[@]}" "$tmp/run/best.safetensors"
expect 0 '^val accuracy of best .* 9 examples' "another split" "${eval[@]}" "$tmp/run" --split val
rm "$tmp/data/train.safetensors"
expect 0 '23 examples' "without the other splits" "${eval[@]}" "$tmp/run"
make_data "$tmp/data" listops 40 9 23 60

# ---- the first examples alone ----

expect 0 'test accuracy .* 5 examples' "of the first examples" "${eval[@]}" "$tmp/run" --limit 5 --predict "$tmp/p.csv"
check "which is not held against what training measured" test "$(grep -c 'as cast_train' "$tmp/out")" = 0
check "and their predictions" test "$(wc -l <"$tmp/p.csv")" = 6
expect 0 ' 23 examples' "more than there are" "${eval[@]}" "$tmp/run" --limit 500

# ---- beside exact attention ----

expect 0 '^ +all +[0-9.]+ % +[0-9.]+ %$' "how near it comes to exact attention" "${eval[@]}" "$tmp/run" --approximation
check "head by head" test "$(grep -cE '^ +[01]\.[01] +[0-9.]+ % +[0-9.]+ %$' "$tmp/out")" = 4
expect 0 '^ +all +0.00 % +-$' "exact attention itself, whose queries see all" \
    "${eval[@]}" "$tmp/run" --approximation model.attention.type=full
expect 0 '^ +1.1 +0.00 % +100.00 %$' "and a window over all" \
    "${eval[@]}" "$tmp/run" --approximation model.attention.type=local model.attention.window=500
bytes=4
[ "${CAST_MODE:-}" != double ] || bytes=8
# Where a layer's attention reads nothing, what it sees is all alike; the other layer's is not.
cp -r "$tmp/run" "$tmp/blank"
edit "$tmp/blank/best.safetensors" blocks.1.norm1.weight "$(repeat $((16 * bytes)) '\x00')"
expect 0 '^ +1.1 +0.00 % ' "each layer has its own input" \
    "${eval[@]}" "$tmp/blank" --approximation model.attention.type=local model.attention.window=3
check "and the first its own" grep -qE '^ +0.1 +[0-9.]*[1-9]' "$tmp/out"
expect 0 '^5 documents' "of the first examples" "${eval[@]}" "$tmp/run" --approximation --limit 5
"${eval[@]}" "$tmp/run" --approximation --json --threads 1 model.attention.type=clustered >"$tmp/one" 2>"$tmp/log"
"${eval[@]}" "$tmp/run" --approximation --json --threads 2 model.attention.type=clustered >"$tmp/two" 2>"$tmp/log"
check "the same at two threads" cmp "$tmp/one" "$tmp/two"
check "for programs" grep -q '"flops_share":' "$tmp/one"
"${eval[@]}" "$tmp/run" --json model.attention.type=clustered >>"$tmp/one"
shares=$(grep -o '"flops_share":[^,]*' "$tmp/one" | sort | uniq -c)
check "of which both tell the cost" grep -q '^ *2 "flops_share":' <<<"$shares"
expect 0 '^clustered,,[0-9.]+,[0-9.]+' "which cast_report reads, beside accuracies" \
    "$bin/cast_report" "$tmp/one" --what points --format csv
window='{"type":"local","window":3}'
"${eval[@]}" "$tmp/run" --approximation model.attention.type=local model.attention.window=3 >"$tmp/one" 2>&1
"${eval[@]}" "$tmp/run" --approximation "model={\"depth\":2,\"heads\":2,\"d\":16,\"d_ff\":16,\"d_emb\":16,\"max_length\":60,\"attention\":$window}" >"$tmp/two" 2>&1
check "the same of a model in one object" cmp "$tmp/one" "$tmp/two"
check "which is how near it comes" grep -q '^ *all ' "$tmp/one"
train --out "$tmp/turned" model.positions=rope --no-test >"$tmp/log" 2>&1
expect 78 'model.max_length=20: documents are as long as in training, 60 tokens' "not of shorter documents" \
    "${eval[@]}" "$tmp/turned" --approximation model.max_length=20
expect 64 'exclude each other' "predictions of no accuracy" "${eval[@]}" "$tmp/run" --approximation --predict "$tmp/p.csv"

# ---- where it errs ----

expect 0 '^by length' "accuracy by length" "${eval[@]}" "$tmp/run"
rows=$(sed -n '/^by length/,/^$/s/^ .* to [0-9]* *\([0-9]*\) .*/\1/p' "$tmp/out" | paste -sd+)
check "of all examples" test $((rows)) = 23
# shellcheck disable=SC2016
check "with standard errors" awk '/^test accuracy/ { p = $7; error = $9; n = $13 }
    /^by length/ { table = 1 } /^$/ { table = 0 }
    table && / to / { rows++; bad = bad || off($5, $7, $4, 0.051) }
    function off(p, error, n, most) { e = error - sqrt(p * (100 - p) / n); return e > most || e < -most }
    END { exit bad || rows < 2 || off(p, error, n, 0.0051) }' "$tmp/out"
check "which it explains" has_line '± is the standard error of a share p of so many examples, sqrt(p (1 - p) / examples)'
# shellcheck disable=SC2016
check "as JSON" awk 'match($0, /"accuracy":[^,]*/) { p = substr($0, RSTART + 11, RLENGTH - 11) }
    match($0, /"accuracy_error":[^,]*/) { e = substr($0, RSTART + 17, RLENGTH - 17) - sqrt(p * (1 - p) / 23); found = 1 }
    END { exit !found || e * e > 1e-12 }' "$tmp/json"
cells=$(sed -n '/^confusion/,$s/^  [0-9] *\(.*\)  .*/\1/p' "$tmp/out" | sed 's/[0-9.]* %//' | tr ' ' '\n' | grep -xE '[0-9]+' | paste -sd+)
check "the table of confusions has each once" test $((cells)) = 23
said_in() { grep -aoE "\"$2\": ?\"[0-9a-f]{8}\"" "$1" | head -n 1 | tail -c 10 | head -c 8; } # said_in FILE KEY
expect 0 '"split":"val"' "JSON beside predictions" "${eval[@]}" "$tmp/run" --last --split val --predict "$tmp/p2.csv" --json
check "says which weights they are of" test "$(said_in "$tmp/out" crc32)" = "$(said_in "$tmp/run/last.safetensors" crc32)"
check "and which data" test "$(said_in "$tmp/out" data_hash)" = "$(said_in "$tmp/run/env.json" val)"
check "both of which are known" test "$(said_in "$tmp/out" data_hash | wc -c)$(said_in "$tmp/out" crc32 | wc -c)" = 88
expect 0 '' "predictions" "${eval[@]}" "$tmp/run" --predict "$tmp/p.csv"
check "with a header" test "$(head -n 1 "$tmp/p.csv")" = index,label,predicted,p0,p1,p2,p3,p4,p5,p6,p7,p8,p9
check "a line an example" test "$(wc -l <"$tmp/p.csv")" = 24
right=$(awk -F, 'NR > 1 && $2 == $3' "$tmp/p.csv" | wc -l)
check "as many right as it says" grep -qF "$(awk "BEGIN { printf \"%.2f ± \", 100 * $right / 23 }")" "$tmp/out"
# shellcheck disable=SC2016
check "probabilities, the largest of what is predicted" awk -F, 'NR > 1 {
    sum = 0; best = 4
    for (i = 4; i <= NF; i++) { sum += $i; if ($i > $best) best = i }
    if (sum < 0.99999 || sum > 1.00001 || best - 4 != $3 || $1 != NR - 2) exit 1 }' "$tmp/p.csv"

# The figures again, from the predictions; which are right metrics tell too.
check "answers are those of the test" test "$(awk -F, 'NR > 1 { at = (NR - 2) % 4; digit += ($2 == $3) * 2 ^ (3 - at)
    if (at == 3) { printf "%x", digit; digit = 0 } } END { if (at < 3) printf "%x", digit }' "$tmp/p.csv")" = \
    "$(grep '"which": "best"' "$tmp/run/metrics.jsonl" | grep -oE '"correct": "[0-9a-f]+' | cut -d'"' -f4)"
# shellcheck disable=SC2016
check "confusions: a row a label, a column what was predicted" diff <(awk -F, 'NR > 1 { n[$2 " " $3]++ }
    END { for (at in n) print at, n[at] }' "$tmp/p.csv" | sort) \
    <(awk '/^confusion/ { table = 1; next } /^$/ { table = 0 }
        table && /^  [0-9] / { for (i = 0; i < 10; i++) if ($(i + 2) != ".") print $1, i, $(i + 2) }' "$tmp/out" | sort)
# shellcheck disable=SC2016
check "accuracies by length are those of all, by parts" awk -v right="$right" '
    /^by length/ { table = 1 }
    /^$/ { table = 0 }
    table && / to / { sum += $4 * $5 / 100 }
    END { exit !(sum > right - 0.02 && sum < right + 0.02) }' "$tmp/out"
most=$(awk -F, 'NR > 1 && ++n[$2] > most { most = n[$2] } END { print most }' "$tmp/p.csv")
check "the commonest label" grep -qE "^always answering [0-9] would give $(awk "BEGIN { printf \"%.2f\", 100 * $most / 23 }") %$" "$tmp/out"

# Too many classes for a table of all, from data whose labels are 0 to 9.
make_data "$tmp/many" custom 40 9 23 60
sed -i 's/"classes":"10"/"classes":"40"/' "$tmp/many"/*.safetensors
train --out "$tmp/many-run" task=custom data.dir="$tmp/many" >"$tmp/log" 2>&1
expect 0 '^most frequent mistakes of 40 classes' "mistakes, where classes are many" "${eval[@]}" "$tmp/many-run" --predict "$tmp/p.csv"
# shellcheck disable=SC2016
check "the commonest of them, each with its number" diff <(awk -F, 'NR > 1 && $2 != $3 { n[$2 " " $3]++ }
    END { for (at in n) print n[at], at }' "$tmp/p.csv" | sort -k1,1nr -k2,2n -k3,3n | head -n 10) \
    <(sed -n 's/^ *\([0-9]*\)  \([0-9]*\) taken for \([0-9]*\)$/\1 \2 \3/p' "$tmp/out")
make_data "$tmp/few" custom 8 4 4 60
expect 65 "few/test.safetensors: vocabulary 16, 10 classes and 1 documents an example are not those of the training data .16, 40, 1.$" \
    "data of other sizes" "${eval[@]}" "$tmp/many-run" data.dir="$tmp/few"
train --out "$tmp/again" >"$tmp/log" 2>&1
sed -i '/"which": "best"/s/"loss": [0-9.]*/"loss": 9/' "$tmp/again/metrics.jsonl"
expect 0 '^cast_train measured .*9.0000.*another' "another figure than training measured" "${eval[@]}" "$tmp/again"

# Where val is part of train.safetensors, by place in the split, as cast_viz counts.
make_data "$tmp/reviews" text 30 1 5 40
"$bin/cast_train" "$tmp/tiny.json" --threads 1 task=text data.dir="$tmp/reviews" data.holdout=0.2 --out "$tmp/held" >"$tmp/log" 2>&1
expect 0 '^val accuracy of best .* 6 examples' "predictions of held-out examples" \
    "${eval[@]}" "$tmp/held" --split val --predict "$tmp/p.csv"
check "of which nothing is told" test "$(grep -c 'held out' "$tmp/out")" = 0
expect 0 '^warning: .*: other examples are held out than in training: those of val may' "others are told" \
    "${eval[@]}" "$tmp/held" --split val data.holdout_seed=2
check "as what was changed" grep -q '^changed .*data.holdout_seed (1, now 2)' "$tmp/out"
expect 64 "'-' is not standard output here" "predictions to no file" "${eval[@]}" "$tmp/held" --predict -
"$bin/cast_data" generate listops --length 61..90 --depth 4 --train 8 --val 4 --test 5 --out "$tmp/longer" >"$tmp/log" 2>&1
expect 0 '^5 of them are longer than the 60 tokens that the model reads, and cut$' "examples that are cut" \
    "${eval[@]}" "$tmp/run" data.dir="$tmp/longer"
for i in 0 3 5; do
    said=$(awk -F, -v i=$i '$1 == i { printf "%d, predicted %d (%.0f %%)", $2, $3, 100 * $(4 + $3) }' "$tmp/p.csv")
    "$bin/cast_viz" "$tmp/held" --split val --index $i --out "$tmp/pictures" 2>&1 |
        sed -nE 's/^example .* label ([0-9]).*predicted ([0-9]).* (\([0-9]+ %\))$/\1, predicted \2 \3/p' >"$tmp/out"
    check "and cast_viz says the same of example $i" grep -qxF "${said:-nothing}" "$tmp/out"
done

mkdir "$tmp/equal"
make_split "$tmp/equal/test.safetensors" listops 12 1 7
expect 0 '12 examples' "examples of one length" "${eval[@]}" "$tmp/run" data.dir="$tmp/equal"
check "have no table of lengths" bash -c "! grep -q 'by length' '$tmp/out'"
check "nor are they what cast_train measured" bash -c "! grep -q 'cast_train measured' '$tmp/out'"

# ---- swapping ----

key=model.attention
expect 0 '^changed  model.attention.type \("cast", now "full"\)$' "exact attention with CAST's weights" \
    "${eval[@]}" "$tmp/run" $key.type=full
full=$(grep '^test accuracy' "$tmp/out")
"${eval[@]}" "$tmp/run" $key.type=naive >"$tmp/out" 2>&1
check "whose two kinds agree" has_line "$full"
for change in '"sa_topk" mechanism' '5 cluster_size' '"laplace" attention_fn' 'false summaries' 'false intra'; do
    read -r value name <<<"$change"
    expect 0 "^changed  $key.$name \(.*, now $value\)$" "another $name" "${eval[@]}" "$tmp/run" "$key.$name=$value"
done
expect 0 ' 4 heads' "other heads where no weight depends on them" "${eval[@]}" "$tmp/run" $key.type=full model.heads=4
expect 0 "^drawn    not trained with these weights: surrogate; by train.seed 1\$" "more clusters, with drawn surrogates" \
    "${eval[@]}" "$tmp/run" $key.clusters=8
expect 78 'model.heads \(2, now 4\)' "other heads where one does" "${eval[@]}" "$tmp/run" model.heads=4
expect 78 'model.d \(16, now 32\)' "another width" "${eval[@]}" "$tmp/run" model.d=32
expect 78 'blocks.1.* has no place .*model.depth \(2, now 1\)' "fewer blocks" "${eval[@]}" "$tmp/run" model.depth=1
expect 78 'blocks.2.* is missing.*model.depth \(2, now 3\)' "more blocks" "${eval[@]}" "$tmp/run" model.depth=3
train --out "$tmp/full" --stop-at 5 $key.type=full >"$tmp/log" 2>&1
for type in local clustered i-clustered smyrf performer linear nystrom; do
    conv=(); [ $type != nystrom ] || conv=("$key.conv_kernel=0")
    expect 0 "$type attention" "$type swapped into exact attention's weights" \
        "${eval[@]}" "$tmp/full" $key.type=$type "${conv[@]}"
    expect 0 '^left     behind: phi.bias, phi.weight, surrogate$' "and into CAST's" \
        "${eval[@]}" "$tmp/run" $key.type=$type "${conv[@]}"
done
expect 0 '^drawn    not trained with these weights: planes; by train.seed 1$' "draws are made" \
    "${eval[@]}" "$tmp/full" $key.type=clustered
expect 0 '^warning: drawn, and not trained with these weights: planes; by train.seed 1$' "of one's own examples too" \
    bash -c "echo '[MAX 2 3 ]' | '$bin/cast_eval' '$tmp/full' '$key.type=clustered' --input -"
expect 0 '^warning: left behind: phi.bias, phi.weight, surrogate$' "and what is left" \
    bash -c "echo '[MAX 2 3 ]' | '$bin/cast_eval' '$tmp/run' '$key.type=full' --input -"
expect 0 '"left_behind":"phi.bias, phi.weight, surrogate","drawn":"planes",' "for programs too" \
    bash -c "echo '[MAX 2 3 ]' | '$bin/cast_eval' '$tmp/run' '$key.type=clustered' --input - --json"
for output in --limit=2 --approximation; do
    expect 0 '"left_behind":"phi.bias, phi.weight, surrogate","drawn":"planes",' "and for programs ($output)" \
        "${eval[@]}" "$tmp/run" $key.type=clustered "$output" --json
done
expect 0 '^drawn .*: surrogate, phi.weight, phi.bias; by train.seed 1$' "CAST, with drawn surrogates" \
    "${eval[@]}" "$tmp/full" $key.type=cast $key.clusters=2
expect 78 "projection' .* is not in it: it was trained with full attention, which has no such weights" \
    "what Linformer trains" "${eval[@]}" "$tmp/full" $key.type=linformer
expect 78 "conv' .* is not in it" "a convolution that was not trained" "${eval[@]}" "$tmp/full" $key.type=nystrom
expect 78 "lsh has no projection 'key'" "exact attention's weights with lsh" "${eval[@]}" "$tmp/full" $key.type=lsh
for type in lsh linformer nystrom clustered; do
    train --out "$tmp/$type" --stop-at 5 $key.type=$type >"$tmp/log" 2>&1
done
expect 78 "lsh has no projection 'key'" "lsh's weights with exact attention" "${eval[@]}" "$tmp/lsh" $key.type=full
expect 78 "does not work without its tensor 'blocks.0.attn.projection'" "Linformer's with exact attention" \
    "${eval[@]}" "$tmp/linformer" $key.type=full
expect 78 "does not work without its tensor 'blocks.0.attn.conv'" "Nystromformer's without its convolution" \
    "${eval[@]}" "$tmp/nystrom" $key.conv_kernel=0
expect 0 'attention.landmarks \(128, now 4\)' "other landmarks" "${eval[@]}" "$tmp/nystrom" $key.landmarks=4
expect 0 '^drawn .*: planes;' "other bits: other draws" "${eval[@]}" "$tmp/clustered" $key.bits=20
expect 0 'top_k|i-clustered' "improved clustered attention takes clustered's draws" \
    "${eval[@]}" "$tmp/clustered" $key.type=i-clustered
check "and makes none" bash -c "! grep -q '^drawn' '$tmp/out'"
expect 78 "unknown" "a key that is none" "${eval[@]}" "$tmp/run" $key.cluster=8
expect 64 "key=value" "a word that is no key=value" "${eval[@]}" "$tmp/run" test

# ---- what is refused ----

expect 64 'no RUN or CHECKPOINT' "nothing to look at" "${eval[@]}"
expect 64 'expected train, val or test' "a split that is none" "${eval[@]}" "$tmp/run" --split testing
expect 64 "'cast_eval --help'" "an option that is none" "${eval[@]}" "$tmp/run" --nonsense
expect 64 'no run' "--last of a checkpoint" "${eval[@]}" "$tmp/run/best.safetensors" --last
expect 66 'nowhere' "a place that is not there" "${eval[@]}" "$tmp/nowhere"
mkdir "$tmp/empty" "$tmp/begun"
expect 66 "but not a run's: it has no config.json\$" "an empty directory" "${eval[@]}" "$tmp/empty"
expect 66 "one of those in it is meant: .*; for all of them: for run in \"$tmp\"/\*/; do cast_eval \"\\\$run\" --json >>rows.jsonl; done; cast_report rows.jsonl --what points\$" \
    "a directory of several" "${eval[@]}" "$tmp"
cp "$tmp/run/config.json" "$tmp/begun"
expect 66 'has saved nothing there yet' "a run that has just begun" "${eval[@]}" "$tmp/begun"
cp "$tmp/run/last.safetensors" "$tmp/begun"
expect 66 '\-\-last takes last.safetensors' "a run before its first validation" "${eval[@]}" "$tmp/begun"
expect 0 'test accuracy of last' "which has a last state" "${eval[@]}" "$tmp/begun" --last
cp "$tmp/norm/best.safetensors" "$tmp/begun"
expect 65 'model.norm .*it is not of this run' "a checkpoint of another run" "${eval[@]}" "$tmp/begun"
head -c 3000 "$tmp/run/best.safetensors" >"$tmp/begun/best.safetensors"
expect 65 'best.safetensors' "a checkpoint that breaks off" "${eval[@]}" "$tmp/begun"
cp "$tmp/run/best.safetensors" "$tmp/begun"
printf 'X' | dd of="$tmp/begun/best.safetensors" bs=1 conv=notrunc \
    seek=$(($(wc -c <"$tmp/begun/best.safetensors") - 99)) 2>/dev/null
expect 65 'best.safetensors.*crc32' "one with a byte changed" "${eval[@]}" "$tmp/begun"
head -c 40 "$tmp/run/config.json" >"$tmp/begun/config.json"
expect 65 'config.json' "half a config" "${eval[@]}" "$tmp/begun"
expect 65 'is not a checkpoint' "a file that is none" "${eval[@]}" "$tmp/data/test.safetensors"
expect 66 "nodata/test.safetensors.*benchmark's have 501 tokens or more, and this model takes 60: run 'cast_data generate listops --length 15..60 --out $tmp/nodata'" "missing data" \
    "${eval[@]}" "$tmp/run" data.dir="$tmp/nodata"
make_data "$tmp/text" retrieval 9 3 3 20
mkdir "$tmp/kept" && cp "$tmp/run"/*.json* "$tmp/kept"
expect 66 'kept: has no best.safetensors: .* its checkpoints are elsewhere' "metrics without checkpoints" "${eval[@]}" "$tmp/kept"
expect 65 'not those of task listops' "data of another task" "${eval[@]}" "$tmp/run" data.dir="$tmp/text"
cp -r "$tmp/run" "$tmp/own"
expect 73 'is there and is no table of predictions' "predictions over the checkpoint" "${eval[@]}" "$tmp/own" --predict "$tmp/own/best.safetensors"
mkfifo "$tmp/pipe"
expect 73 'pipe or device' "predictions in place of a pipe" "${eval[@]}" "$tmp/run" --predict "$tmp/pipe"
expect 73 'needs a file of its own' "predictions where the report goes" "${eval[@]}" "$tmp/run" --predict /dev/stdout
expect 73 'nowhere' "predictions to nowhere" "${eval[@]}" "$tmp/run" --predict "$tmp/nowhere/p.csv"
