#!/bin/bash
# cast_viz from the command line: which files it writes, what it prints, that both agree with the figures, and what it
# refuses.
set -u
. tests/training.sh
viz=("$bin/cast_viz")
out=$tmp/files
# A run of three updates on the data of $1 with the attention's keys $3 and the model's $4: its weights mean nothing.
make_run() { # make_run NAME TASK ATTENTION [MODEL]
    cat >"$tmp/$1.json" <<END
{ "task": "$2", "data": { "dir": "$tmp/$1-data" },
  "model": { "depth": 2, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, ${4:-} "attention": { $3 } },
  "train": { "steps": 3, "batch": 2, "lr": 5e-3 } }
END
    "$bin/cast_train" "$tmp/$1.json" --threads 1 --out "$tmp/$1" >"$tmp/log" 2>&1
    result $? "a run of $2" "$tmp/log"
}
names() { (cd "$out" && echo *); }
# Width and height of a PNG, from its header.
size() { od -An -tu1 -j16 -N8 "$1" | awk '{ print $3 * 256 + $4, $7 * 256 + $8 }'; }

expect 0 '^usage: cast_viz' "help" "${viz[@]}" --help
expect 0 '^cast_viz [0-9]+\.[0-9]+\.[0-9]+$' "version" "${viz[@]}" --version

# ---- a text of words ----

make_data "$tmp/words-data" listops 12 3 5 60
make_run words listops '"clusters": 4' '"max_length": 60,'
expect 0 '^wrote .*/viz-2\.html$' "ListOps" "${viz[@]}" "$tmp/words" --index 2 --out "$out"
check "a page, and affinities for each layer" test "$(names)" = "viz-2-layer0-affinity.png viz-2-layer1-affinity.png viz-2.html"
check "no colours in a pipe" bash -c "! grep -q $'\033' '$tmp/out'"
check "a section a layer" test "$(grep -c '<h2>Layer' "$out/viz-2.html")" = 2
tokens=$(grep -o '<i ' "$out/viz-2.html" | wc -l)
check "what holds tokens is closed" test "$tokens" -gt 0 -a "$tokens" = "$(grep -o '</i>' "$out/viz-2.html" | wc -l)"
expect 0 $'\033\[(4;)?48;5;214;38;5;16m' "colours if asked for" "${viz[@]}" "$tmp/words" --index 2 --out "$out" --color always
several=$(sed -nE 's/^<p>.* no cluster, ([0-9]+) in several\.<.*/\1/p' "$out/viz-2.html" | paste -sd+)
check "a line below each token that is in several" test "$(grep -o $'\033\[4;' "$tmp/out" | wc -l)" = $((several))
grep -oE 'title="token [0-9]+: clusters [^"]*' "$out/viz-2.html" |
    sed 's/^[^(]*(//; s/)[^(]*(/ /g; s/)$//' >"$tmp/falling"
# shellcheck disable=SC2016
check "which is told to each, the highest first" awk '{ for (i = 2; i <= NF; i++) { if ($i > $(i - 1)) bad = 1
    fell += $i < $(i - 1) } } END { exit bad || !fell }' "$tmp/falling"
expect 0 '^layer 1: 4 clusters' "one layer alone" "${viz[@]}" "$tmp/words" --index 2 --out "$tmp/alone" --layer 1
"${viz[@]}" "$tmp/words" --index 2 --split val --out "$tmp/alone" --layer 1 >"$tmp/log" 2>&1
check "of another split with its name" test -s "$tmp/alone/viz-val-2.html" -a -s "$tmp/alone/viz-val-2-layer1-affinity.png"
rm "$tmp/alone"/viz-val-*
check "with its files alone" test "$(cd "$tmp/alone" && echo *)" = "viz-2-layer1-affinity.png viz-2.html"
expect 0 'viz-0.html' "into the run's directory if not told where" "${viz[@]}" "$tmp/words" --index 0
check "there it is" test -s "$tmp/words/viz-0.html"

# ---- a text of bytes, pairs, a cls token ----

make_data "$tmp/pairs-data" retrieval 12 3 5 40
make_run pairs retrieval '"clusters": 3, "cluster_size": "length"' '"max_length": 40, "pooling": "cls",'
rm -r "$out"
expect 0 '<cls>' "a pair" "${viz[@]}" "$tmp/pairs" --index 4 --out "$out"
check "both documents" test "$(names)" = \
    "viz-4-a-layer0-affinity.png viz-4-a-layer1-affinity.png viz-4-b-layer0-affinity.png viz-4-b-layer1-affinity.png viz-4.html"
check "four sections" test "$(grep -c '<h2>Document [ab], layer [01]' "$out/viz-4.html")" = 4
check "markup in the text is escaped" grep -q '&lt;cls&gt;' "$out/viz-4.html"

# ---- pictures ----

"$bin/cast_data" generate pathfinder --out "$tmp/paths-data" --train 4 --val 2 --test 3 --difficulty easy --threads 1 \
    >"$tmp/log" 2>&1
make_run paths pathfinder '"clusters": 5, "cluster_size": 205, "mechanism": "sa_topk"'
expect 0 '^ +0 two snakes ' "classes by their names" "$bin/cast_eval" "$tmp/paths"
check "each by its own" grep -qE '^ +1 one snake ' "$tmp/out"
rm -r "$out"
"${viz[@]}" "$tmp/paths" --index 1 --out "$out" --threads 1 >"$tmp/log" 2>&1
check "and made" test -s "$out/viz-1-layer0-clusters.png"
rm -r "$out"
expect 0 'one snake|two snakes' "a picture" "${viz[@]}" "$tmp/paths" --index 1 --out "$out" --layer 0
check "clusters and affinities" test "$(names)" = "viz-1-layer0-affinity.png viz-1-layer0-clusters.png"
check "seven panels, 8 pixels a token" test "$(size "$out/viz-1-layer0-clusters.png")" = "1104 702"
cp "$tmp/out" "$tmp/print"
check "every token is in one cluster: a row of letters each" test "$(grep -cxE '[0-4]{32}' "$tmp/print")" = 32
sizes=$(for c in 0 1 2 3 4; do grep -xE '[0-4]{32}' "$tmp/print" | tr -cd $c | wc -c; done | xargs)
legend=$(grep -oE '[0-4]:[0-9]+' "$tmp/print" | cut -d: -f2 | xargs)
check "as many as the legend says" test "$sizes" = "$legend"
expect 0 $'\033\[38;5;[0-9]+;48;5;[0-9]+m\xe2\x96\x80' "in colour, two rows a line" \
    "${viz[@]}" "$tmp/paths" --index 1 --out "$out" --color always
"${viz[@]}" "$tmp/paths" --index 1 --out "$tmp/again" --layer 0 --threads 2 >"$tmp/log" 2>&1
check "the same bytes again" cmp "$out/viz-1-layer0-clusters.png" "$tmp/again/viz-1-layer0-clusters.png"
make_data "$tmp/own-data" custom 6 2 2 1
make_run own custom '"clusters": 2'
rm -r "$out"
expect 0 '' "documents of one's own" "${viz[@]}" "$tmp/own" --index 1 --out "$out"
check "of one token are no picture" test -e "$out/viz-1.html"

# Three documents of bytes: two of 4 x 4, and one of LAST tokens.
squares() { # squares FILE LAST
    local i tokens='' n=$((32 + $2)) bytes=''
    RANDOM=7
    for ((i = 0; i < n; i++)); do printf -v tokens '%s\\x%02x' "$tokens" $((RANDOM % 256)); done
    put 8 0 && put 8 16 && put 8 32 && put 8 $n && put 4 0 && put 4 1 && put 4 2
    bytes+=$tokens
    put_file "$1" "{\"offsets\":{\"dtype\":\"I64\",\"shape\":[4],\"data_offsets\":[0,32]},
        \"labels\":{\"dtype\":\"I32\",\"shape\":[3],\"data_offsets\":[32,44]},
        \"tokens\":{\"dtype\":\"U8\",\"shape\":[$n],\"data_offsets\":[44,$((44 + n))]},
        \"__metadata__\":{\"task\":\"custom\",\"vocab\":\"256\",\"classes\":\"3\"}}"
}
mkdir "$tmp/squares-data"
for split in train val test; do squares "$tmp/squares-data/$split.safetensors" 16; done
cp -r "$tmp/squares-data" "$tmp/ragged"
squares "$tmp/ragged/test.safetensors" 15
make_run squares custom '"clusters": 4' '"pooling": "cls",'
rm -r "$out"
expect 0 'layer0-clusters.png' "pictures of one's own" "${viz[@]}" "$tmp/squares" --index 0 --layer 0 --out "$out"
expect 0 'viz-0.html' "which are texts beside another length" \
    "${viz[@]}" "$tmp/squares" --index 0 --layer 0 --out "$out/text" data.dir="$tmp/ragged"
if command -v python3 >/dev/null; then
    check "show the picture, and affinities as the text does" \
        python3 tests/viz/panels.py "$tmp/ragged/test.safetensors" \
        "$out/viz-0-layer0-clusters.png" "$out/viz-0-layer0-affinity.png" "$out/text/viz-0-layer0-affinity.png"
else
    echo "ok - panels of pictures # SKIP no python3"
fi

# ---- groups of each head ----

type=model.attention.type
rm -r "$out"
expect 0 '^layer 0, head 1: [0-9]+ groups' "groups of clustered attention" \
    "${viz[@]}" "$tmp/paths" --index 1 --out "$out" $type=clustered model.attention.clusters=9
check "a picture of each head, and no affinities" test "$(names | wc -w)" = "$(names | tr ' ' '\n' | grep -cE 'layer[01]-head[01]-clusters.png')"
check "of two layers and two heads" test "$(names | wc -w)" = 4
rm -r "$out"
expect 0 '^layer 1, head 0, round 1, keys: 5 groups' "SMYRF's, of queries and of keys" \
    "${viz[@]}" "$tmp/words" --index 2 --out "$out" --layer 1 --head 0 $type=smyrf model.attention.rounds=2 \
    model.attention.cluster_size=8 data.dir="$tmp/words-data"
check "on a page" test "$(grep -c '<h2>Layer 1, head 0, round' "$out/viz-2.html")" = 4
check "which speaks of groups" grep -q '^<p>[0-9]* tokens; [0-9]* in no group\.</p>' "$out/viz-2.html"
check "alone" test "$(grep -ic 'clusters\? \|in several' "$out/viz-2.html")" = 0
expect 64 'heads 0 to 1, got 2' "a head that is none" "${viz[@]}" "$tmp/paths" --index 1 --head 2 $type=clustered
expect 64 'of all heads together' "a head of CAST's clusters" "${viz[@]}" "$tmp/paths" --index 1 --head 0

# ---- an attention that was not trained ----

swapped=("${viz[@]}" "$tmp/words" model.attention.type=clustered model.attention.clusters=4 --index 2 --out "$tmp/swapped")
expect 0 '^warning: drawn, and not trained with these weights: planes; by train.seed 1$' "is told" "${swapped[@]}"
check "on the page" grep -q '<br>Drawn, and not trained with these weights: planes; by train.seed 1\.</p>' "$tmp/swapped/viz-2.html"
check "which says no such thing of one that was" bash -c "grep -q '<h2>Layer' '$tmp/alone/viz-2.html' && ! grep -q 'not trained' '$tmp/alone/viz-2.html'"
expect 0 '"drawn":[[:space:]]*"planes"' "and for programs" "${viz[@]}" "$tmp/words" model.attention.type=clustered \
    model.attention.clusters=4 --stats --json

# ---- figures ----

field() { sed -n "s/^ *\"$1\": \([^,]*\),\{0,1\}$/\1/p" "$tmp/json" | xargs; }
"${viz[@]}" "$tmp/paths" --stats --json >"$tmp/json" 2>&1
result $? "figures" "$tmp/json"
check "over the split" test "$(field documents), $(field tokens)" = "3 3, 3072 3072"
check "no token in none, none in several" test "$(field none) $(field several)" = "0 0 0 0"
check "sizes" test "$(field most)" = "205 205"
"${viz[@]}" "$tmp/paths" --stats --json --threads 2 >"$tmp/two" 2>"$tmp/log"
check "the same at two threads" cmp "$tmp/json" "$tmp/two"
"${viz[@]}" "$tmp/paths" --stats --json --limit 2 model.attention.cluster_size=1024 \
    model.attention.mechanism=topk >"$tmp/json" 2>&1
check "whose surrogate tokens moved" test "$(field moved_degrees | tr ' ' '\n' | awk '$1 > 0 && $1 < 90' | wc -l)" = 2
check "of the first two, clusters of all tokens" test "$(field documents), $(field several), $(field size)" = "2 2, 1 1, 1024 1024"
check "which are spread like all" test "$(field compactness)" = "1 1"
"${viz[@]}" "$tmp/paths" --index 0 --layer 0 --out "$out" >"$tmp/print" 2>&1
"${viz[@]}" "$tmp/paths" --stats --json --limit 1 >"$tmp/json" 2>&1
# Of the letters on the terminal, the plane's mean square distances.
# shellcheck disable=SC2016
far='function put(c, x, y) { n[c]++; X[c] += x; Y[c] += y; S[c] += x * x + y * y }
    function spread(c) { return (S[c] - (X[c] * X[c] + Y[c] * Y[c]) / n[c]) / (n[c] - 1) }
    { for (x = 1; x <= 32; x++) { put("all", x, NR); put(substr($0, x, 1), x, NR) } }
    END { for (c = 0; c < 5; c++) sum += spread(c) / spread("all"); printf "%.6f", sqrt(sum / 5) }'
equal "those of a picture as far apart as they are printed" "$(grep -xE '[0-4]{32}' "$tmp/print" | awk "$far")" \
    "$(printf %.6f "$(field compactness | cut -d ' ' -f 1)")"
"${viz[@]}" "$tmp/words" --stats --json train.seed=2 >"$tmp/json" 2>&1
check "surrogates of two seeds are apart, in degrees" \
    test "$(field moved_degrees | tr ' ' '\n' | awk '$1 > 30 && $1 < 150' | wc -l)" = 2
"${viz[@]}" "$tmp/words" --stats --json model.attention.clusters=2 >"$tmp/json" 2>&1
equal "of two clusters the largest cosine is the mean" "$(field cosine)" "$(field cosine_largest)"
expect 0 'compactness .*in the plane' "a table for people" "${viz[@]}" "$tmp/paths" --stats
"${viz[@]}" "$tmp/words" --stats --kept --json >"$tmp/json" 2>&1
"${viz[@]}" "$tmp/words" --stats --kept >"$tmp/table" 2>&1
# shellcheck disable=SC2016
row='{ v[$1] = $2 } $1 == "kept" { printf "%d %.1f %.0f %.0f %.1f%% %.1f%% %.1f%% %.2f %.2f %.2f %.2f %.2f %.2f\n", n++,
    v["size"], v["least"], v["most"], 100 * v["empty"], 100 * v["none"], 100 * v["several"], v["entropy_bits"],
    v["cosine"], v["cosine_largest"], v["moved_degrees"], v["compactness"], 100 * v["kept"] }'
equal "whose rows are those for programs" "$(sed -nE 's/ +/ /g; s/^ ([01] .*)/\1/p' "$tmp/table")" \
    "$(sed -nE 's/^ +"([a-z_]+)": ([^,]+),?$/\1 \2/p' "$tmp/json" | awk "$row")"
"$bin/cast_eval" "$tmp/words" --approximation --json >"$tmp/heads" 2>&1
# shellcheck disable=SC2016
equal "what is kept is the mean over the layer's heads" "$(field kept | xargs -n 1 printf '%.9f\n')" \
    "$(grep -oE '"layer":[^}]*' "$tmp/heads" | awk -F '[:,]' '{ kept[$2] += $8 / 2 }
        END { printf "%.9f\n%.9f", kept[0], kept[1] }')"
expect 0 '^ +1 .* -$' "what has no value" "${viz[@]}" "$tmp/paths" --stats --limit 1 model.attention.cluster_size=1
check "is a dash" test "$(grep -c nan "$tmp/out")" = 0
check "without what takes long" test "$(grep -c kept "$tmp/out")" = 0
expect 0 '^ +1 .* [0-9.]+$' "the weight that is kept" "${viz[@]}" "$tmp/paths" --stats --kept --limit 2
check "in words" grep -q '^kept ' "$tmp/out"
"${viz[@]}" "$tmp/paths" --stats --kept --json --limit 2 model.attention.cluster_size=1024 \
    model.attention.mechanism=topk >"$tmp/json" 2>&1
check "all of it where a cluster has all tokens" test "$(field kept | awk '{ printf "%.4f %.4f", $1, $2 }')" = "1.0000 1.0000"
expect 64 'of --stats' "of an example" "${viz[@]}" "$tmp/paths" --index 0 --kept
expect 0 'along the text' "texts too" "${viz[@]}" "$tmp/pairs" --stats --split val

expect 0 '^  1\.1 .*%' "figures of each head" "${viz[@]}" "$tmp/paths" --stats $type=smyrf
check "which explain what has a figure" test "$(grep -cE '^(entropy|moved) ' "$tmp/out")" = 0
"${viz[@]}" "$tmp/paths" --stats --json $type=smyrf model.attention.cluster_size=256 >"$tmp/json" 2>&1
check "over the split" test "$(field documents)" = "3 3 3 3"
check "of equal sizes" test "$(field least), $(field most), $(field clusters)" = "256 256 256 256, 256 256 256 256, 4 4 4 4"
check "without affinities" test "$(field entropy_bits)" = "null null null null"

# ---- what is refused ----

expect 64 'no RUN' "nothing to look at" "${viz[@]}" --index 0
expect 64 'either --index I or --stats' "neither example nor figures" "${viz[@]}" "$tmp/words"
expect 64 'either --index I or --stats' "both" "${viz[@]}" "$tmp/words" --stats --index 0
expect 64 'stats takes no --out' "a layer of all" "${viz[@]}" "$tmp/words" --stats --layer 1
expect 64 'of --stats' "--json of an example" "${viz[@]}" "$tmp/words" --index 0 --json
expect 64 'the test split has examples 0 to 4, got 5' "an example that is none" "${viz[@]}" "$tmp/words" --index 5
expect 64 'layers 0 to 1, got 2' "a layer that is none" "${viz[@]}" "$tmp/words" --index 0 --layer 2
expect 64 'auto, always or never' "a colour that is none" "${viz[@]}" "$tmp/words" --index 0 --color sometimes
expect 65 "attention is 'full', which has no clusters" "exact attention" \
    "${viz[@]}" "$tmp/words" --index 0 model.attention.type=full
expect 65 "which has no clusters" "a head of it" \
    "${viz[@]}" "$tmp/words" --index 0 --head 0 model.attention.type=full
expect 65 "which has no clusters" "its figures" "${viz[@]}" "$tmp/words" --stats model.attention.type=naive
expect 66 "but not a run's" "a directory that is no run" "${viz[@]}" "$tmp/words-data" --index 0
expect 66 'nodata/test.safetensors' "missing data" "${viz[@]}" "$tmp/words" --index 0 data.dir="$tmp/nodata"
head -c 5000 "$tmp/words/best.safetensors" >"$tmp/half"
expect 65 'half' "half a checkpoint" "${viz[@]}" "$tmp/half" --index 0
expect 73 'words.json' "a place where nothing can be written" "${viz[@]}" "$tmp/words" --index 0 --out "$tmp/words.json/x"
check "and nothing is left half-written" test -z "$(find "$tmp" -name '*.tmp.*')"
