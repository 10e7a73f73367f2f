#!/bin/bash
# What people misspell: keys, options, verbs, tasks, files. Each with the right suggestion, and where it was.
set -u
. tests/training.sh
make_data "$tmp/data/listops" listops 40 9 9 60
mkdir -p "$tmp/configs" "$tmp/runs/first"
cat >"$tmp/configs/tiny.json" <<'JSON'
{ "task": "listops",
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60, "attention": { "clusters": 4 } },
  "train": { "steps": 4, "batch": 4 } }
JSON
cd "$tmp" || exit 1
"$bin/cast_train" configs/tiny.json --out runs/first >"$tmp/log" 2>&1
result $? "a run to mistake" "$tmp/log"

mistake() { # mistake STATUS SUGGESTION PROGRAM ARGUMENT...: is refused with that status, and that is suggested
    expect "$1" "did you mean ['\"]-*$2['\"]\\?" "${*:3}" "$bin/${3}" "${@:4}"
}

key() { # key WRONG RIGHT
    mistake 78 "$2" cast_train configs/tiny.json --dry-run --out runs/x "$1"
    check "which is said to be on the command line" grep -q 'on the command line: key' "$tmp/out"
}
key lr=3 train.lr
key steps=10 train.steps
key epcohs=2 train.epochs
key clusters=4 model.attention.clusters
key clustres=4 model.attention.clusters
key depht=2 model.depth
key dropuot=0.1 model.dropout
key augmnet=true data.augment
key seed=3 train.seed
key batch_=3 train.batch
key train.epoch=1 train.epochs
key train.bach=8 train.batch
key train.sede=1 train.seed
key train.weight_decy=0 train.weight_decay
key model.atention.type=full model.attention
key model.attention.cluster=4 model.attention.clusters
key model.attention.tpye=full model.attention.type
key model.attention.n_clusters=4 model.attention.clusters
mistake 78 model.attention.iterations cast_train configs/tiny.json --dry-run model.attention.type=clustered iterations=5
key attention=full model.attention.type
key type=full model.attention.type
key model.type=full model.attention.type
key learning_rate=3 train.lr
check "with the value that was given" grep -q "'train.lr'? (got 3; the keys here are " "$tmp/out"
key model.clusters=4 model.attention.clusters
key model.attention.depth=2 model.depth
key model.learning_rate=3 train.lr
key train.dropout=0.1 model.dropout
key train.clip_norm=1 train.clip
expect 64 'base is a key of a file; tiny.json can stand in the place of CONFIG' "a base on the command line" \
    "$bin/cast_train" configs/tiny.json --dry-run base=tiny.json
expect 78 "model.attention.type' must be one of cast, full, .*, got 5" "a mechanism that is a number" \
    "$bin/cast_train" configs/tiny.json --dry-run model.attention.type=5
expect 64 'base is a key of a file' "or in parts" "$bin/cast_train" configs/tiny.json --dry-run base.x=1
for bare in base base.model; do
    expect 64 "'$bare': expected key=value" "$bare without a value" \
        "$bin/cast_train" configs/tiny.json "$bare" --dry-run
done
cp -r data/listops 2024
expect 0 'changed  data.dir=2024' "a directory that is a number" \
    "$bin/cast_train" configs/tiny.json --dry-run data.dir=2024
expect 66 'true: ' "weights whose name is a JSON value" "$bin/cast_train" configs/tiny.json train.init=true --out runs/x
key model.max_lenght=9 model.max_length
key dta.dir=x data
key data.dri=x data.dir
key trian.lr=1 train
key model.attention.type=clusterd clustered
key train.schedule=linaer linear
key model.norm=lyaer layer
key model.positions=leraned learned

mistake 64 threads cast_train configs/tiny.json --thraeds=2
mistake 64 dry-run cast_train configs/tiny.json --dryrun
mistake 64 stop-at cast_train configs/tiny.json --stopat 3
mistake 64 accept-data cast_train configs/tiny.json --acept-data
mistake 64 predict cast_eval runs/first --perdict p.csv
mistake 64 average cast_eval runs/first --avrage
mistake 64 stats cast_viz runs/first --stast
mistake 64 index cast_viz runs/first --indx 3
mistake 64 format cast_report runs/first --fromat md
mistake 64 mechanisms cast_bench configs/tiny.json --mechanism_ cast
mistake 64 seeds cast_sweep configs/tiny.json --sedes 1..2 --out runs/s
mistake 64 generate cast_data generat listops --out x
mistake 64 verify cast_data verfy data/listops
mistake 64 import cast_data imprt image x --out y
mistake 64 listops cast_data generate lisotps --out x
mistake 64 pathfinder cast_data generate pathfider --out x
mistake 64 retrieval cast_data import retreival x --out y
mistake 66 configs/tiny.json cast_train configs/tniy.json
mistake 66 configs/tiny.json cast_train config/tiny.json
mistake 66 runs/first cast_eval runs/frist
mistake 66 runs/first/best.safetensors cast_eval runs/first/bets.safetensors
mistake 66 runs/first cast_viz runs/fisrt --stats
mistake 66 runs/first cast_report runs/firts
mistake 66 runs/first cast_export run/first --out x

expect 66 "imag: .*--help' lists the shipped ones" "a shipped config's name" "$bin/cast_train" imag
expect 66 'No such file or directory$' "nothing near is suggested" "$bin/cast_train" configs/other_thing.json
sed 's/"depth": 1/"depht": 1/' configs/tiny.json >configs/wrong.json
expect 78 "^cast_train: configs/wrong.json: key 'model.depht' is unknown; did you mean 'model.depth'" \
    "what is in the file is said to be there" "$bin/cast_train" configs/wrong.json --dry-run train.steps=3
echo '{ "base": "tiny.json", "model": { "clusters": 2 } }' >configs/elsewhere.json
mistake 78 model.attention.clusters cast_train configs/elsewhere.json --dry-run
check "a key of another section in a file" grep -q '^cast_train: configs/elsewhere.json: key' "$tmp/out"

# ---- values ----

expect 78 'model.attention={"type":"full",}:1:16: expected another key' "an object with a comma too many" \
    "$bin/cast_train" configs/tiny.json --dry-run 'model.attention={"type":"full",}'
mkdir configs/folder
echo '{ "base": "folder" }' >configs/on.json
expect 78 "^cast_train: configs/on.json: key 'base': configs/folder: is a directory" "a base that is a directory" \
    "$bin/cast_train" configs/on.json --dry-run
expect 66 'configs/tiny.json: is a file; data.dir is the directory' "a file for data.dir" \
    "$bin/cast_train" configs/tiny.json --dry-run data.dir=configs/tiny.json
