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

# Links count as what they are; what expect and this script write does not, nor notes of checked data.
sums() { (cd "$1" && find . ! -name out ! -name log ! -name '*.checked' -printf '%p %y %l\n' -type f -exec sha256sum {} \; | sort); }

# Expects that a command refuses to write, and that all in DIR is what it was.
keeps() { # keeps DIR PATTERN NAME COMMAND...
    local dir=$1 pattern=$2 name=$3 was
    was=$(sums "$dir")
    shift 3
    expect 73 "$pattern" "$name" "$@"
    [ "$(sums "$dir")" = "$was" ] || result 1 "$name: leaves all as it was"
}

# ---- outputs in the place of files of another kind ----

for victim in sweep predict show; do cp "$tmp/tiny.json" "$tmp/$victim.json"; done
step=("$bin/cast_step" "$tmp/tiny.json" --threads 1)
"${step[@]}" --init 1 --weights-out "$tmp/w" >"$tmp/out" 2>&1
run=$tmp/run
keeps "$tmp" 'metrics.jsonl: is there and is no HTML page' "a page over metrics" \
    "$bin/cast_report" "$run" --html "$run/metrics.jsonl"
keeps "$tmp" 'predict.json: is there and is no table of predictions' "predictions over a config" \
    "$bin/cast_eval" "$run" --predict "$tmp/predict.json"
keeps "$tmp" 'last.safetensors: is there and is no table' "predictions over a checkpoint" \
    "$bin/cast_eval" "$run" --predict "$run/last.safetensors"
keeps "$tmp" 'sweep.json: is there and is no script' "a job script over the sweep's config" \
    "$bin/cast_sweep" "$tmp/sweep.json" --seeds 1..2 --out "$tmp/sweep" --slurm "$tmp/sweep.json"
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
    keeps "$tmp" 'notes.svg: is there and is no SVG' "with its script" \
        "$bin/cast_report" "$run" --plot "$tmp/notes.svg" --keep
else
    echo "ok - # SKIP no gnuplot: plots over others"
fi
echo '<p>notes' >"$run/viz-1.html"
expect 73 'viz-1.html: is there and is no HTML page' "a page of clusters over notes" "$bin/cast_viz" "$run" --index 1
check "which stay" grep -qx '<p>notes' "$run/viz-1.html"
"$bin/cast_data" generate pathfinder --train 8 --val 2 --test 2 --out "$tmp/paths" >"$tmp/out" 2>&1
keeps "$tmp" 'show.json: is there and is no PNG' "a picture over a config" \
    "$bin/cast_data" show "$tmp/paths" --index 1 --png "$tmp/show.json"
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
    check "an export $turn" "$bin/cast_export" "$run" --out "$tmp/exported" --python
    check "weights $turn" "${step[@]}" --init 1 --weights-out "$tmp/w"
    expect 0 '' "data $turn" "$bin/cast_data" generate listops --train 8 --val 2 --test 2 --out "$tmp/made"
    expect 0 '' "LRA's files $turn" \
        "$bin/cast_data" generate listops --train 8 --val 2 --test 2 --out "$tmp/made" --tsv "$tmp/lra"
done
: >"$tmp/empty"
check "a page over a file without a byte" "$bin/cast_report" "$run" --html "$tmp/empty"

# ---- directories that hold files of the user's ----

# A directory exp with a file of that name and content, whose config is asked to train into it.
refuses() { # refuses FILE NAME [WORD...]: WORDs are its content
    local file=$1 name=$2
    rm -rf "$tmp/exp"
    mkdir -p "$tmp/exp/$(dirname "$file")"
    cp "$tmp/tiny.json" "$tmp/exp/zconfig.json"
    echo "${@:3}" >"$tmp/exp/$file"
    keeps "$tmp/exp" "exp: holds .*, and is neither empty nor a run's directory" "a run: $name" \
        "$bin/cast_train" "$tmp/exp/zconfig.json" --out "$tmp/exp"
    keeps "$tmp/exp" "exp: holds .*, and is neither empty nor a run's" "its dry run" "${train[@]}" --out "$tmp/exp" --dry-run
    keeps "$tmp/exp" 'exp: (holds .*, and is neither empty nor a sweep|is the directory of a run)' "a sweep: $name" \
        "$bin/cast_sweep" "$tmp/exp/zconfig.json" --seeds 1..2 --out "$tmp/exp"
}
refuses zconfig.json "beside its config" "$(cat "$tmp/tiny.json")"
refuses notes.txt "beside notes" "mine"
refuses lock "beside a lock that is none" "door"
refuses config.json "beside a config.json" '{ "mine": 1 }'
refuses env.json "beside an env.json" '{ "version": "7" }'
refuses metrics.jsonl "beside metrics" '{ "kind": "mine" }'
refuses last.safetensors "beside other weights" 'mine'
cp "$tmp/run/last.safetensors" "$tmp/exp"
cp "$tmp/tiny.json" "$tmp/exp/config.json"
keeps "$tmp/exp" 'exp: holds config.json, and is neither' "a run: beside a config and a copied checkpoint" \
    "${train[@]}" --out "$tmp/exp"
refuses best.safetensors "beside weights" 'mine'
refuses deep/file "beside a folder" 'mine'
refuses events.out.tfevents.1700000000.host.7 "beside another program's curves"
rm -rf "$tmp/exp"
mkdir "$tmp/exp"
cp "$tmp/tiny.json" "$tmp/exp/config.json"
keeps "$tmp/exp" 'exp: holds config.json, and is neither empty nor' "a run: over its config" \
    "$bin/cast_train" "$tmp/exp/config.json" --out "$tmp/exp"
mkdir "$tmp/lock"
echo 'do not enter' >"$tmp/lock/lock"
keeps "$tmp/lock" 'lock/lock: is there and is no lock of these programs' "a lock that is none, alone" \
    "${train[@]}" --out "$tmp/lock"
keeps "$tmp/lock" 'lock/lock: is there and is no lock of these programs' "of a sweep too" \
    "$bin/cast_sweep" "$tmp/tiny.json" --seeds 1..2 --out "$tmp/lock"

for name in lock metrics.jsonl; do
    cp -r "$tmp/run" "$tmp/linked"
    mkdir -p "$tmp/target"
    echo '{"mine": 1}' >"$tmp/target/$name"
    ln -sf "../target/$name" "$tmp/linked/$name"
    keeps "$tmp/target" "linked/$name: .*is a link" "a $name that is a link" \
        "${train[@]}" train.steps=21 --out "$tmp/linked"
    rm -rf "$tmp/linked"
done
cp -r "$tmp/run" "$tmp/target/run"
for name in last.safetensors best.safetensors config.json env.json metrics.jsonl; do
    cp -r "$tmp/run" "$tmp/linked"
    ln -sf "$tmp/target/run/$name" "$tmp/linked/$name"
    keeps "$tmp/target" "linked/$name: is a link" "$name of another run, by a link" \
        "${train[@]}" train.steps=21 --out "$tmp/linked"
    rm -rf "$tmp/linked"
done
cp -rl "$tmp/run" "$tmp/linked"
expect 73 'linked/metrics.jsonl: has other names' "metrics of another run, by a hard link" \
    "${train[@]}" train.steps=21 --out "$tmp/linked"
rm -rf "$tmp/linked"
mkdir "$tmp/linked"
ln -s "$tmp/data/"* "$tmp/linked"
keeps "$tmp/data" 'linked/train.safetensors: is a link' "a set that is there by links" \
    "$bin/cast_data" generate listops --train 8 --val 2 --test 2 --out "$tmp/linked"
rm -rf "$tmp/linked"

# What a run without its last checkpoint would begin anew over.
cp -r "$tmp/run" "$tmp/headless"
rm "$tmp/headless"/{last.safetensors,metrics.jsonl}
was=$(sums "$tmp/headless" | grep -v lock)
expect 73 "headless/last.safetensors is not there, but .*/headless/best.safetensors is, of update [0-9]" \
    "a best without a last" "${train[@]}" train.eval_every=1 --out "$tmp/headless"
check "which stays as it is" test "$(sums "$tmp/headless" | grep -v lock)" = "$was"
again=$(sed -n "s/.*go on from update [0-9]*: \\(cp .*\\)\\. To start.*/\\1/p" "$tmp/out")
check "told how to go on" bash -c "$again"
expect 0 'resuming at update' "which does" "${train[@]}" --out "$tmp/headless"
rm -f "$tmp/headless/metrics.jsonl"
expect 0 'metrics.jsonl: lines are lost: the time that updates 1 to ' "without metrics its time is lost, as is told" \
    "${train[@]}" --out "$tmp/headless"
cp -r "$tmp/run" "$tmp/kept"
"${train[@]}" train.steps=30 train.eval_every=5 train.keep=3 --out "$tmp/kept" >/dev/null 2>&1
rm "$tmp/kept"/{last.safetensors,metrics.jsonl}
expect 73 "kept/at-0*30.safetensors is, of update 30: a run from the start" "those of before, to be validated more rarely" \
    "${train[@]}" train.steps=30 train.eval_every=30 train.keep=3 --out "$tmp/kept"
cp -r "$tmp/kept" "$tmp/back"
rm "$tmp/back"/{best,at-0000000025}.safetensors
cp "$tmp/back/config.json" "$tmp/config.json"
mv "$tmp/back/at-0000000030.safetensors" "$tmp/back/rollback.safetensors"
expect 73 'back/rollback.safetensors is, of update 30: .* To go on from update 30: cp .*/back/rollback' "or a state to go back to" \
    "${train[@]}" train.steps=30 train.eval_every=5 train.nan=rollback --out "$tmp/back"
expect 78 'another config: train.lr' "which has the run's config" "${train[@]}" train.steps=30 train.eval_every=5 train.lr=1 --out "$tmp/back"
check "that stays" diff "$tmp/config.json" "$tmp/back/config.json"
cp -r "$tmp/kept" "$tmp/torn"
rm "$tmp/torn/best.safetensors"
printf torn >"$tmp/torn/last.safetensors"
torn=("${train[@]}" train.steps=30 train.eval_every=5 train.keep=3 --out "$tmp/torn")
expect 65 "To go on from update 30: cp $tmp/torn/at-0*30.safetensors" "where a last one is damaged, the latest is told" "${torn[@]}"
printf XXXX | dd of="$tmp/torn/at-0000000030.safetensors" bs=1 conv=notrunc seek=$(($(wc -c <"$tmp/torn/at-0000000030.safetensors") - 99)) 2>/dev/null
expect 65 "To go on from update 25: cp $tmp/torn/at-0*25.safetensors" "of those that are whole" "${torn[@]}"
rarer=("${train[@]}" train.steps=30 train.keep=3 --out "$tmp/rarer")
"${rarer[@]}" train.eval_every=5 --stop-at 5 >/dev/null 2>&1
"${rarer[@]}" train.eval_every=30 >/dev/null 2>&1
rm "$tmp/rarer"/{last.safetensors,metrics.jsonl}
expect 73 "rarer/.*.safetensors is, of update 30: a run from the start" "two, of which the later is validated as rarely" \
    "${rarer[@]}" train.eval_every=30
mv "$tmp/kept/at-0000000030.safetensors" "$tmp/kept/best.safetensors"
expect 73 "kept/best.safetensors is, of update 30: a run from the start" "a best that is later than the one kept" \
    "${train[@]}" train.steps=30 train.eval_every=25 --out "$tmp/kept"
rm "$tmp/kept"/at-*
expect 73 "kept/best.safetensors is, of update 30: a run from the start" "or was validated more often than now" \
    "${train[@]}" train.steps=30 train.eval_every=30 --out "$tmp/kept"

# ---- directories that a run or a sweep may have ----

# What a start that was killed leaves, moment by moment; by 0.1.0 config.json came first.
begins() { # begins NAME FILE...
    local name=$1 file
    rm -rf "$tmp/begun"
    mkdir "$tmp/begun"
    for file in "${@:2}"; do
        case $file in
        lock) echo 'process 12345 on h' >"$tmp/begun/lock" ;;
        *.tmp.*) echo '{ "half' >"$tmp/begun/$file" ;;
        *) cp "$tmp/run/$file" "$tmp/begun/$file" ;;
        esac
    done
    expect 0 'test accuracy of last' "$name" "${train[@]}" --out "$tmp/begun"
    check "and nothing is left over" test -z "$(find "$tmp/begun" -name '*.tmp.*')"
}
begins "an empty directory"
begins "killed with the lock" lock
begins "in env.json" lock env.json.tmp.12345
begins "in config.json" lock env.json config.json.tmp.12345
begins "behind it" lock env.json config.json last.safetensors.tmp.12345
begins "0.1.0: in config.json" lock config.json.tmp.12345
begins "0.1.0: behind env.json" lock config.json env.json
begins "a run without its lock" env.json config.json metrics.jsonl last.safetensors best.safetensors
begins "checkpoints alone" last.safetensors best.safetensors
begins "a run without its env.json" config.json metrics.jsonl last.safetensors best.safetensors
cp -r "$tmp/run" "$tmp/more"
touch "$tmp/more/notes.txt" "$tmp/more/events.out.tfevents.1700000000.host.7"
expect 0 'resuming at update 20' "a run with files beside" "${train[@]}" --out "$tmp/more"
mkdir "$tmp/own-log"
"${train[@]}" --out "$tmp/own-log" >"$tmp/own-log/log" 2>&1
result $? "a directory that holds this run's log" "$tmp/own-log/log"
mkdir "$tmp/runs"
cp -r "$tmp/run" "$tmp/runs/one"
cp -r "$tmp/sweep" "$tmp/runs/two"
touch "$tmp/runs/.hidden" "$tmp/runs/sweep.json.tmp.12345"
expect 0 '2 runs' "a sweep beside runs and sweeps" \
    "$bin/cast_sweep" "$tmp/tiny.json" --seeds 1..2 --out "$tmp/runs" --slurm "$tmp/job2.sh"
touch "$tmp/runs/notes.txt"
expect 0 '2 runs' "which it then is, with notes" "$bin/cast_sweep" "$tmp/tiny.json" --seeds 1..2 --out "$tmp/runs" --dry-run
