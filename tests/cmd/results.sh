#!/bin/bash
# scripts/results.sh: pages are rebuilt of committed metrics, and the committed pages are what it makes.
set -u
. tests/training.sh
root=$tmp/root
mkdir -p "$root"
cp -r README.md docs scripts results "$root"
for program in "$bin"/cast_*; do ln -s "$program" "$root"; done
results=("$root/scripts/results.sh")

page() { # page FILE COMMAND [END]: with an old table
    printf 'before\n<!-- made by: %s -->\nold\n%s\nafter\n' "$2" "${3-<!-- end -->}" >"$root/results/$1"
}
same() { diff <(printf '%b' "$2") "$root/results/$1"; }
fails() { ! "$@"; }

if command -v gnuplot >/dev/null && command -v python3 >/dev/null; then
    sed -i '/^<!-- made by: .* -->$/a stale' "$root"/README.md "$root"/docs/*.md "$root"/results/*.md
    check "the committed pages" "${results[@]}"
    for file in README.md docs/*.md results/*.md; do
        check "$file is made of the committed metrics" diff "$file" "$root/$file"
    done
else
    echo "ok - the committed pages # SKIP gnuplot or python3 is not there"
fi

page a.md 'echo one; echo two'
expect 0 'results/a.md: rebuilt' "a page" "${results[@]}" results/a.md
made='before\n<!-- made by: echo one; echo two -->\none\ntwo\n<!-- end -->\nafter\n'
check "holds what the command printed" same a.md "$made"
"${results[@]}" README.md results/a.md >"$tmp/out" 2>&1 && [ ! -s "$tmp/out" ]
result $? "the same again changes nothing" "$tmp/out"
page a.md 'echo half; false'
check "a command that fails is told" fails "${results[@]}" results/a.md
check "leaves the page as it was" same a.md 'before\n<!-- made by: echo half; false -->\nold\n<!-- end -->\nafter\n'
page a.md 'false | cat'
check "in front of a pipe, too" fails "${results[@]}" results/a.md
page a.md 'echo one' ''
expect 1 'a.md: a table without <!-- end -->' "a table without an end" "${results[@]}" results/a.md
rm "$root/results/a.md"

mkdir -p "$root/runs/sweep/clusters=4,seed=1" "$root/runs/sweep/empty"
for file in config.json env.json metrics.jsonl last.safetensors; do
    echo $file >"$root/runs/sweep/clusters=4,seed=1/$file"
done
kept=$root/results/metrics/sweep
(cd "$root" && expect 0 'results/metrics/sweep/clusters=4,seed=1' "keeps runs" "${results[@]}" keep runs/sweep)
check "but not their weights" diff <(cd "$kept" && find . -type f | sort) - <<'END'
./clusters=4,seed=1/config.json
./clusters=4,seed=1/env.json
./clusters=4,seed=1/metrics.jsonl
./clusters=4,seed=1/weights.sha256
END
again="$root/runs/sweep/clusters=4,seed=1"
(cd "$again" && check "whose sums a repeated run has" sha256sum --quiet -c "$kept/clusters=4,seed=1/weights.sha256")
echo other >"$again/last.safetensors"
(cd "$again" && check "or has not" fails sha256sum --status -c "$kept/clusters=4,seed=1/weights.sha256")
mkdir "$root/runs/rows"
echo '{}' >"$root/runs/rows/of it.jsonl"
(cd "$root" && expect 0 '^results/metrics/rows/of it.jsonl$' "keeps rows" "${results[@]}" keep runs/rows)
check "as they are" diff "$root/runs/rows" "$root/results/metrics/rows"
cp -r "$kept" "$tmp/was"
(cd "$root" && expect 64 'results/metrics/sweep/ is where its runs are kept' "not in their own place" "${results[@]}" keep results/metrics/sweep/)
check "where all is as it was" diff -r "$tmp/was" "$kept"
for line in 1:3 2:2 3:9 4:8 3:1.5 4:1 5:0.25; do # updates 3 and 4 were made twice
    echo "{\"kind\": \"train\", \"step\": ${line%:*}, \"epoch\": 1, \"loss\": ${line#*:}, \"accuracy\": 0.5}"
done >"$kept/clusters=4,seed=1/metrics.jsonl"
expect 0 '^[|] clusters=4,seed=1 [|] 2.500 [|] 0.625 [|]$' "mean losses" "${results[@]}" losses "$kept" 2
expect 1 'clusters=4,seed=1: has 5 lines of training, not 6' "of fewer lines" "${results[@]}" losses "$kept" 6
mkdir -p "$kept/other"
for line in 2:0.25 4:0.5; do echo "{\"kind\": \"val\", \"step\": ${line%:*}, \"accuracy\": ${line#*:}, \"loss\": 1}"; done \
    >"$kept/other/metrics.jsonl"
echo '{"kind": "val", "step": 4, "accuracy": 0.75}' >>"$kept/clusters=4,seed=1/metrics.jsonl"
expect 0 '^[|] 2 [|] - [|] 25.00 [|]$' "accuracies in validation" "${results[@]}" validations "$kept"
check "side by side" grep -qxF '| 4 | 75.00 | 50.00 |' "$tmp/out"
check "by the runs' names" grep -qxF '| updates | clusters=4,seed=1 | other |' "$tmp/out"
mkdir -p "$tmp/back/a"
printf '{"kind": "%s", "step": %d, "accuracy": 0.%d}\n' val 100 1 val 300 9 resume 200 0 val 250 2 >"$tmp/back/a/metrics.jsonl"
expect 0 '^[|] 300 [|] - [|]$' "of what a run went back behind there is none" "${results[@]}" validations "$tmp/back"
mkdir -p "$tmp/other/a"
printf '{"kind": "%s", "step": %d, "accuracy": 0.%d, "what": "data.%s"}\n' \
    val 100 9 '' resume 100 0 '' change 100 0 train val 200 2 '' >"$tmp/other/a/metrics.jsonl"
echo '{ "data": { "holdout": 0 } }' >"$tmp/other/a/config.json"
expect 0 '^[|] 100 [|] 90.00 [|]$' "and of what other examples were trained there is" "${results[@]}" validations "$tmp/other"
echo '{ "data": { "holdout": 0.1 } }' >"$tmp/other/a/config.json"
expect 0 '^[|] 100 [|] - [|]$' "but none of what others validated" "${results[@]}" validations "$tmp/other"
"${results[@]}" validations "$tmp/back" >"$tmp/out"
check "and updates rise" diff <(grep -oE '^\| [0-9]+ ' "$tmp/out") <(printf '| %d \n' 100 250 300)
rm -r "$kept/other"
curve() { # curve NAME LOSS...: a line an update
    local name=$1 step=0 loss
    shift
    for loss in "$@"; do echo "{\"kind\": \"train\", \"step\": $((++step)), \"loss\": $loss}"; done >"$tmp/$name.jsonl"
}
curve one 2 4 1 3
curve two 2 4.4 1 3
curve short 2.1 4 1
expect 0 '^[|] 2 [|] 3.00000 [|] [+]6.67 % [|] 1e-01 [|] [+]1.67 % [|] 5e-02 [|]$' "curves side by side" \
    "${results[@]}" windows 2 "$tmp"/{one,two,short}.jsonl
check "in windows that they have" grep -qxF '| 4 | 2.00000 | +0.00 % | 0e+00 | - | - |' "$tmp/out"
echo '{"kind": "test", "step": 2, "loss": 9}' >>"$tmp/two.jsonl"
expect 0 '^[|] 2 [|] 3.00000 [|] [+]6.67 % [|] 1e-01 [|] 3.00000 [|] [+]1.67 % [|] 5e-02 [|] [+]4.17 % [|]$' "curves in pairs" \
    "${results[@]}" pairs 2 "$tmp"/{one,two,one,short}.jsonl
check "of which one has an end" grep -qxF '| 4 | 2.00000 | +0.00 % | 0e+00 | 2.00000 | - | - | - |' "$tmp/out"
expect 0 '^[|] 4 [|] - [|] - [|] - [|]$' "a short one first" "${results[@]}" windows 2 "$tmp"/{short,one}.jsonl
mkdir -p "$root/runs/sweep/failed"
echo '{}' >"$root/runs/sweep/failed/config.json"
(cd "$root" && expect 0 'results/metrics/sweep/failed' "a run that failed at once counts" "${results[@]}" keep runs/sweep)
(cd "$root" && expect 66 'failed is a run: name the directory' "a run by itself" "${results[@]}" keep runs/sweep/failed)
check "as it is" test "$(ls "$root/results/metrics/sweep/failed")" = config.json
mkdir -p "$root/runs/halves/"{text-masked,text-masked-masked,easy,text-easy,text-easy-easy,text-easy-intermediate}
echo '{"train": {"objective": "classify"}}' >"$root/runs/halves/text-masked/config.json"
echo '{"train": {"objective": "masked"}}' >"$root/runs/halves/text-masked-masked/config.json"
echo '{"data": {"dir": "data/text"}}' | tee "$root/runs/halves/"{easy,text-easy}/config.json >/dev/null
echo '{"data": {"dir": "data/text-easy"}}' >"$root/runs/halves/text-easy-easy/config.json"
echo '{"data": {"dir": "data/text-intermediate"}}' >"$root/runs/halves/text-easy-intermediate/config.json"
(cd "$root" && expect 0 'results/metrics/best/text-masked$' "by another name" "${results[@]}" keep runs/halves best)
check "a masked half apart" cmp "$root/runs/halves/text-masked-masked/config.json" "$root/results/metrics/masked/text-masked/config.json"
check "and nowhere else" test ! -e "$root/results/metrics/best/text-masked-masked"
check "an easy half, too" cmp "$root/runs/halves/text-easy-easy/config.json" "$root/results/metrics/easy/text-easy/config.json"
check "and an intermediate one" test -e "$root/results/metrics/intermediate/text-easy/config.json"
check "but no run whose name alone is easy" test "$(cd "$root/results/metrics/best" && echo *easy*)" = "easy text-easy"
rm -r "$root/runs/sweep/failed"
curve torn 2 null 1
printf '{"kind": "train", "step": 4, "loss": 2.' >>"$tmp/torn.jsonl"
expect 0 '^[|] 2 [|] 3.00000 [|] - [|] - [|]$' "a loss that is none" "${results[@]}" windows 2 "$tmp"/{one,torn}.jsonl
check "or torn" grep -qxF '| 4 | 2.00000 | - | - |' "$tmp/out"
expect 0 '^[|] 2 [|]( [0-9+. %e|-]+){15}$' "eight curves" "${results[@]}" windows 2 "$tmp"/{one,two,one,two,one,two,one,two}.jsonl
expect 64 "N must be a whole number above 0, got '0'" "windows of nothing" "${results[@]}" windows 0 "$tmp"/{one,two}.jsonl
: >"$tmp/none.jsonl"
expect 66 'a file without lines' "a curve without lines" "${results[@]}" pairs 2 "$tmp"/{none,one,two,short}.jsonl
expect 0 '^[|] 2 [|] 3.00000 [|]' "a pipe" "${results[@]}" windows 2 <(cat "$tmp/one.jsonl") "$tmp/two.jsonl"
expect 64 'results.sh keep DIR' "a pair of one" "${results[@]}" pairs 2 "$tmp"/{one,two,one}.jsonl
mkdir -p "$root/runs/two/image"
cp -r "$root/runs/sweep/clusters=4,seed=1" "$root/runs/two/image/a b"
(cd "$root" && expect 0 'results/metrics/two/image/a b' "runs of several sweeps" "${results[@]}" keep runs/two/)
heads='"heads":[{"layer":0,"head":1,"error":0.25,"kept":0.5},{"layer":1,"head":0,"error":1}],'
echo "{\"error\":0.5,${heads}\"config\":{\"model\":{\"attention\":{\"type\":\"clustered\",\"clusters\":16}}}}" >"$tmp/near.jsonl"
expect 0 '^[|] 0.1 [|] 25.0 [|] 50.0 [|]$' "errors by head" "${results[@]}" heads "$tmp/near.jsonl" clustered
check "under the clusters" grep -qxF '| layer.head | 16 clusters: error, % | kept, % |' "$tmp/out"
check "without what is not there" grep -qxF '| 1.0 | 100.0 | - |' "$tmp/out"
sed 's/:/: /g' "$tmp/near.jsonl" >"$tmp/spaced.jsonl"
expect 0 '^[|] 0.1 [|] 25.0 [|] 50.0 [|]$' "of rows with spaces" "${results[@]}" heads "$tmp/spaced.jsonl" clustered
expect 1 'no row of lsh' "of none" "${results[@]}" heads "$tmp/near.jsonl" lsh
expect 66 'no run there has a config.json' "no runs" "${results[@]}" keep "$root/runs/none"
expect 64 'results.sh keep DIR' "anything else" "${results[@]}" discard
