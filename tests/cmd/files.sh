#!/bin/bash
# Files of the user's: no program takes the place of one that it did not write, nor works in a directory that holds
# any, whatever names it was given.
set -u
. tests/training.sh
make_data "$tmp/data" listops 40 9 9 60
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "log_every": 5 } }
END
train=("$bin/cast_train" "$tmp/tiny.json" --threads 1)
"${train[@]}" --out "$tmp/run" >"$tmp/out" 2>&1
result $? "a run to look at" "$tmp/out"

# Links count as what they are; what expect and this script write does not.
sums() { (cd "$1" && find . ! -name out ! -name log -printf '%p %y %l\n' -type f -exec sha256sum {} \; | sort); }

# Expects that a command refuses to write, and that all in DIR is what it was.
keeps() { # keeps DIR PATTERN NAME COMMAND...
    local dir=$1 pattern=$2 name=$3 was
    was=$(sums "$dir")
    shift 3
    expect 73 "$pattern" "$name" "$@"
    [ "$(sums "$dir")" = "$was" ] || result 1 "$name: leaves all as it was"
}

# ---- outputs in the place of files of another kind ----

step=("$bin/cast_step" "$tmp/tiny.json" --threads 1)
"${step[@]}" --init 1 --weights-out "$tmp/w" >"$tmp/out" 2>&1
run=$tmp/run
keeps "$tmp" 'metrics.jsonl: is there and is no HTML page' "a page over metrics" \
    "$bin/cast_report" "$run" --html "$run/metrics.jsonl"
keeps "$tmp" 'tiny.json: is there and is no table of predictions' "predictions over a config" \
    "$bin/cast_eval" "$run" --predict "$tmp/tiny.json"
keeps "$tmp" 'last.safetensors: is there and is no table' "predictions over a checkpoint" \
    "$bin/cast_eval" "$run" --predict "$run/last.safetensors"
keeps "$tmp" 'tiny.json: is there and is no script' "a job script over the sweep's config" \
    "$bin/cast_sweep" "$tmp/tiny.json" --seeds 1..2 --out "$tmp/sweep" --slurm "$tmp/tiny.json"
check "makes no sweep" test ! -e "$tmp/sweep"
keeps "$tmp" 'last.safetensors: is there and is no file of tensors' "weights over a checkpoint" \
    "${step[@]}" --init 1 --weights-out "$run/last.safetensors"
keeps "$tmp" 'train.safetensors: is there and is no file of tensors' "weights over data" \
    "${step[@]}" --init 1 --weights-out "$tmp/data/train.safetensors"
mkdir "$tmp/weights"
cp "$tmp/w" "$tmp/weights/val.safetensors"
keeps "$tmp" 'val.safetensors: is there and is no dataset' "data over weights" \
    "$bin/cast_data" generate listops --train 8 --val 2 --test 2 --out "$tmp/weights"
if command -v gnuplot >/dev/null; then
    cp "$tmp/tiny.json" "$tmp/notes.svg"
    keeps "$tmp" 'notes.svg: is there and is no SVG' "a plot over notes" "$bin/cast_report" "$run" --plot "$tmp/notes.svg"
fi
echo '<p>notes' >"$run/viz-1.html"
expect 73 'viz-1.html: is there and is no HTML page' "a page of clusters over notes" "$bin/cast_viz" "$run" --index 1
check "which stay" grep -qx '<p>notes' "$run/viz-1.html"
"$bin/cast_data" generate pathfinder --train 8 --val 2 --test 2 --out "$tmp/paths" >"$tmp/out" 2>&1
keeps "$tmp" 'tiny.json: is there and is no PNG' "a picture over a config" \
    "$bin/cast_data" show "$tmp/paths" --index 1 --png "$tmp/tiny.json"
mkdir "$tmp/tsv"
echo 'my own table' >"$tmp/tsv/basic_val.tsv"
keeps "$tmp/tsv" 'basic_val.tsv: is there and is no table of ListOps' "LRA's files over another" \
    "$bin/cast_data" generate listops --train 8 --val 2 --test 2 --out "$tmp/small" --tsv "$tmp/tsv"

for turn in "to where nothing is" "over their own"; do
    expect 0 '' "predictions $turn" "$bin/cast_eval" "$run" --predict "$tmp/p.csv"
    check "a page $turn" "$bin/cast_report" "$run" --html "$tmp/page.html"
    expect 0 '' "a picture $turn" "$bin/cast_data" show "$tmp/paths" --index 1 --png "$tmp/one.png"
    expect 0 '' "a job script $turn" \
        "$bin/cast_sweep" "$tmp/tiny.json" --seeds 1..2 --out "$tmp/sweep" --slurm "$tmp/job.sh"
    check "weights $turn" "${step[@]}" --init 1 --weights-out "$tmp/w"
    expect 0 '' "data $turn" "$bin/cast_data" generate listops --train 8 --val 2 --test 2 --out "$tmp/made"
    expect 0 '' "LRA's files $turn" \
        "$bin/cast_data" generate listops --train 8 --val 2 --test 2 --out "$tmp/made" --tsv "$tmp/lra"
done
: >"$tmp/empty"
check "a page over a file without a byte" "$bin/cast_report" "$run" --html "$tmp/empty"
