#!/bin/bash
# record_compat.sh BIN OUT: what the programs in BIN, a directory, write and say, for the versions after them to open:
# tests/compat/<version> is made by this, and tests/compat/compat.sh reads it. For each of three small tasks OUT holds
#
#   config.json, data  its config, and a prepared dataset that was imported from synthetic files
#   half, whole        its run stopped at update 14 and ended at 24, where a line of metrics is due each 4; of whole the
#                      last weights are kept for text alone
#   exported.safetensors  the weights of whole/best.safetensors, exported
#   best.csv           the predictions of these
#   evaluations        its figures: how it was evaluated, accuracy, loss
set -eu
unset CDPATH
bin=$(readlink -f "${1:?usage: record_compat.sh BIN OUT}")
out=${2:?usage: record_compat.sh BIN OUT}
mkdir -p "$out"
cd "$out"
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
export PATH=$bin:$PATH

# ---- synthetic files in the forms of the official ones ----

# Expressions of 4 to 26 tokens with their values.
listops() { # listops ROWS SEED
    awk -v rows="$1" -v seed="$2" '
        function draw(n) { return int(rand() * n) }
        function expression(depth, count, i, v, most, least, sum, kind) {
            if (depth == 0 || (depth == 1 && rand() < 0.6)) { v = draw(10); text = text " " v; return v }
            kind = draw(3); count = 2 + draw(3); most = 0; least = 9; sum = 0
            text = text " [" (kind == 0 ? "MAX" : kind == 1 ? "MIN" : "SM")
            for (i = 0; i < count; i++) {
                v = expression(depth - 1)
                if (v > most) most = v
                if (v < least) least = v
                sum += v
            }
            text = text " ]"
            return kind == 0 ? most : kind == 1 ? least : sum % 10
        }
        BEGIN {
            srand(seed); printf "Source\tTarget\r\n"
            for (r = 0; r < rows; r++) {
                text = ""; v = expression(2); printf "%s\t%d\r\n", substr(text, 2), v
            }
        }'
}

# Words of a paper, or of a review, about one of two things.
words() { # words SEED ABOUT
    awk -v seed="$1" -v about="$2" 'BEGIN {
        srand(seed); n = split(about ? "sea salt wave ship" : "oak leaf root moss", word, " ")
        count = 4 + int(rand() * 5)
        for (i = 0; i < count; i++) printf "%s%s", i ? " " : "", word[1 + int(rand() * n)]
    }'
}

# Pairs of papers, 1 where both are about the same thing.
retrieval() { # retrieval ROWS SEED
    local i a b
    RANDOM=$2
    for ((i = 0; i < $1; i++)); do
        a=$((RANDOM % 12)) b=$((RANDOM % 12))
        printf '%d.0\tp%d\tp%d\t%s\t%s\n' $((a % 2 == b % 2)) $a $b "$(words $a $((a % 2)))" "$(words $b $((b % 2)))"
    done
}

reviews() { # reviews DIR COUNT SEED
    local i
    mkdir -p "$1/neg" "$1/pos"
    for ((i = 0; i < $2; i++)); do
        words $(($3 + i)) 0 >"$1/neg/${i}_2.txt"
        words $(($3 + i)) 1 >"$1/pos/${i}_9.txt"
    done
}

mkdir "$raw/listops" "$raw/retrieval"
listops 96 1 >"$raw/listops/basic_train.tsv"
listops 12 2 >"$raw/listops/basic_val.tsv"
listops 40 3 >"$raw/listops/basic_test.tsv"
retrieval 48 1 >"$raw/retrieval/new_aan_pairs.train.tsv"
retrieval 12 2 >"$raw/retrieval/new_aan_pairs.eval.tsv"
retrieval 32 3 >"$raw/retrieval/new_aan_pairs.test.tsv"
reviews "$raw/text/train" 40 1
reviews "$raw/text/test" 16 100

# ---- configs: most keys are left to their defaults ----

config() { # config TASK MODEL ATTENTION TRAIN
    mkdir "$1"
    cat >"$1/config.json" <<END
{ "task": "$1", "data": { "dir": "data" },
  "model": { "heads": 2, "d": 6, "d_ff": 6, $2,
             "attention": { $3 } },
  "train": { "steps": 24, "eval_every": 4, "log_every": 4, $4 } }
END
}
config listops '"depth": 2, "d_emb": 4, "max_length": 24, "pre_norm": false' '"clusters": 3' \
    '"batch": 8, "lr": 2e-2, "schedule": "linear", "warmup": 3, "weight_decay": 0.01, "clip": 1'
config retrieval '"depth": 1, "d_emb": 4, "max_length": 40, "norm": "batch", "positions": "sinusoidal"' \
    '"clusters": 4, "cluster_size": "length", "mechanism": "sa_topk", "attention_fn": "laplace"' \
    '"batch": 6, "accumulate": 2, "lr": 1e-2, "schedule": "cosine"'
config text '"depth": 1, "d_emb": 2, "max_length": 40, "norm": "scale", "pooling": "cls", "dropout": 0.1' \
    '"clusters": 3, "surrogates": "frozen"' '"batch": 8, "lr": 1e-2, "schedule": "rsqrt", "warmup": 2, "seed": 7'

# ---- what the programs make of them ----

evaluate() { # evaluate NAME OPTION...
    local name=$1 said figures
    shift
    said=$(cast_eval whole --json "$@")
    figures=$(sed -nE 's/^\{[^{]*"accuracy":([^,]*),"loss":([^,]*),.*/\1 \2/p' <<<"$said")
    [ -n "$figures" ]
    echo "$name $figures" >>evaluations
}

for task in listops retrieval text; do
    (
        cd $task
        cast_data import $task "$raw/$task" --out data
        cast_train config.json --out half --stop-at 14
        cp -r half whole
        cast_train config.json --out whole
        cast_export whole --out exported
        evaluate best --predict best.csv
        evaluate val --split val
        evaluate full model.attention.type=full
        rm -f half/lock whole/lock exported.md
        [ $task = text ] || rm whole/last.safetensors
    )
done
