#!/bin/bash
# quickstart.sh: from a fresh Debian 12 to a trained model, in a few minutes and four steps.
set -eu
unset CDPATH
cd "$(dirname "$0")/.."
case $* in
'') ;;
-h | --help)
    sed -n '2s/^# //p' scripts/quickstart.sh
    echo "usage: scripts/quickstart.sh    installs what the build needs, builds, makes a set of short ListOps, trains, tests"
    exit
    ;;
*) echo "quickstart.sh: takes no arguments, got '$*'" >&2; exit 64 ;;
esac
data=data/listops-short
run=runs/quickstart

step() { printf '\n== %s\n' "$*"; }

step "1 of 4: what the build needs"
scripts/deps.sh install build
step "2 of 4: building"
make --no-print-directory -j"$(env -u OMP_NUM_THREADS nproc)" MODE=release all
source='generated, depth 5, 24 to 128 tokens, MIN MAX of 2 to 4 arguments, seed 1'
step "3 of 4: short ListOps: nested [MAX 2 9 [MIN 4 7 ] 0 ] to be worked out, answers 0 to 9"
if [ -e "$data/train.safetensors" ]; then
    [[ $(./cast_data show "$data") == *$'\n'"  source   $source"$'\n'* ]] || {
        echo "$data holds another set: remove it, and run this again" >&2
        exit 73
    }
    echo "$data is there already"
else
    ./cast_data generate listops --depth 5 --length 24..128 --ops MIN,MAX --args 2..4 --train 20000 --val 1000 \
        --test 1000 --out "$data"
fi
./cast_data show "$data" --index 4
step "4 of 4: training CAST on it for less than a minute, then testing"
./cast_train configs/quickstart.json
echo
./cast_eval $run

cat <<END

Done. In $run are metrics.jsonl, best.safetensors, last.safetensors, and checkpoints of the last validations.

What to look at next:
  ./cast_eval $run model.attention.type=full     exact attention with CAST's weights: what clusters taught them
  ./cast_viz $run --index 3                      which tokens the clusters of an expression hold
  ./cast_viz $run --stats                        and of all of them, in figures
  ./cast_report $run --html report.html          curves, tables, config and environment: a page for a browser
And to go on:
  ./cast_train configs/quickstart.json model.attention.type=full    the same with exact attention
  ./cast_train configs/listops.json              ListOps in full: 96,000 long expressions, generated here
  ./cast_train --help keys                       all that a config may say
  make test                                      runs all tests
END
