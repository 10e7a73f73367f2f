# shellcheck shell=bash disable=SC2034,SC2154
# What reproduce.sh compares attentions by. Budgets are in updates and examples, of which `share` is done; what is done
# stays, in $dir, so that the same command goes on.

part() { awk -v n="$1" -v share="$share" 'BEGIN { n *= share; print n < 1 ? 1 : int(n) }'; }

# What a program says as JSON, a line, in a file that is whole or not there.
row() { # row FILE COMMAND...
    local file=$1
    shift
    [ -s "$file" ] && return
    rows_of "$file" "$@" --json
}

# Of CONFIG so many updates, and no test.
train() { # train RUN CONFIG UPDATES KEY=VALUE...
    heed ./cast_train "$2" train.steps=$(($3 + 1)) --stop-at "$3" "${@:4}" --out "$1"
}

# Attentions and their keys, a line each: those that can take full attention's place, by rising budget.
attentions() {
    local n
    for n in 32 128 512; do echo "local window=$n"; done
    for n in 10 25 50 100 200; do echo "clustered clusters=$n"; done
    for n in 10 25 50 100 200; do echo "i-clustered clusters=$n"; done
    for n in 1 2 4 8; do echo "smyrf rounds=$n"; done
    for n in 16 64 256; do echo "performer features=$n"; done
    for n in 16 32 64; do echo "nystrom conv_kernel=0 landmarks=$n"; done
    for n in 4 16 64; do echo "cast clusters=$n"; done
    echo linear
}

# Calls "$@" ROW KEY=VALUE... for each line of standard input, ROW in $dir by the line's words.
each() { # each NAME COMMAND...
    local name=$1 words word overrides
    shift
    while read -r -a words <&3; do
        overrides=("model.attention.type=${words[0]}")
        for word in "${words[@]:1}"; do overrides+=("model.attention.$word"); done
        "$@" "$dir/$name-$(IFS=-; echo "${words[*]}").json" "${overrides[@]}"
    done 3<&0
}

# All rows of a name as one file of points, in the order of attentions; their table and plot.
report() { # report NAME
    local words
    while read -r -a words; do
        cat "$dir/$1-$(IFS=-; echo "${words[*]}").json"
    done >"$dir/$1.jsonl"
    ./cast_report "$dir/$1.jsonl" --what points --plot "$dir/$1.svg" --format md || failed=1
}

# Text's norm in the pages, which configs/text.json had then (results/paper.md).
scale="model.norm=scale model.pre_norm=false"

# Full attention on Text and on Image, 30 to 40 minutes each on two cores of a Zen 5.
full() {
    local dir=runs/swap$suffix
    # shellcheck disable=SC2086
    train "$dir/full-text" configs/text.json "$(part 1800)" $scale model.attention.type=full
    train "$dir/full-image" configs/image.json "$(part 1900)" model.attention.type=full train.warmup="$(part 200)" \
        train.lr=1e-3
}

# shellcheck disable=SC2086
of_random() { row "$1" ./cast_bench configs/text.json model.max_length=1024 $scale "${@:2}" --approximation; }
of_run() { row "$2" ./cast_eval "$1" --last "${@:3}" --approximation --limit "$(part 100)"; }
accuracy() { row "$2" ./cast_eval "$1" --last "${@:3}" --limit "$(part 2500)"; }

# Random numbers can be hashed with shared queries and keys, too.
approximation() {
    local task all
    full
    dir=runs/approximation$suffix
    mkdir -p "$dir"
    all=$(attentions && printf 'lsh rounds=%d\n' 1 2 4 8)
    each random of_random <<<"$all"
    report random <<<"$all"
    all=$(attentions)
    for task in text image; do
        each $task of_run "runs/swap$suffix/full-$task" <<<"$all"
        report $task <<<"$all"
    done
}

swap() {
    local task all
    full
    dir=runs/swap$suffix
    all=$(echo full && attentions)
    for task in text image; do
        each $task accuracy "$dir/full-$task" <<<"$all"
        report $task <<<"$all"
    done
}

# A quarter of an hour's updates on two cores, as many as the mechanism makes on quiet ones, at the mean length of
# Text's reviews.
budget_of() { # budget_of TASK LENGTH ROW KEY=VALUE...
    local task=$1 bench=${3%.json}-step.json updates seconds norm=()
    [ "$task" != text ] || read -r -a norm <<<"$scale"
    set -- "${@:1:3}" "${norm[@]}" "${@:4}"
    row "$bench" ./cast_bench "configs/$task.json" model.max_length="$2" "${@:4}" --threads 2 --seconds 3
    updates=$(sed -E 's/.*"updates_per_s": *([0-9.e+-]+).*/\1/' "$bench")
    seconds=$(sed -E 's/.*"samples_per_s": *([0-9.e+-]+).*/\1/' "$bench" | awk '{ print 1 / $1 }')
    updates=$(part "$(awk -v rate="$updates" 'BEGIN { print 900 * rate }')")
    train "${3%.json}" "configs/$task.json" "$updates" train.warmup="$(part 100)" train.lr=1e-3 "${@:4}"
    accuracy "${3%.json}" "$3"
    sed -E -i "s/^\{(\"seconds\": [^,]+, )?/{\"seconds\": $seconds, /" "$3"
}

budget() {
    local all
    dir=runs/budget$suffix
    mkdir -p "$dir"
    all=$(printf '%s\n' cast full local clustered i-clustered lsh smyrf performer linear linformer nystrom)
    each image budget_of image 1024 <<<"$all"
    report image <<<"$all"
    each text budget_of text 1300 <<<"$all"
    report text <<<"$all"
}

# Learned directions and drawn ones, in clusters of 64 tokens; and how learned ones move.
directions() {
    local checkpoint
    dir=runs/directions$suffix
    directed() { # directed NAME KEY=VALUE...
        sweep configs/image.json train.steps="$(part 4500)" train.warmup="$(part 500)" train.lr=1e-3 \
            train.eval_every="$(part 450)" train.keep=10 "${@:2}" --seeds 1..3 --out "$dir/$1"
    }
    directed cast model.attention.surrogates=learned,frozen
    directed lsh model.attention.type=lsh model.attention.chunk=64
    directed smyrf model.attention.type=smyrf model.attention.rounds=1
    directed clustered model.attention.type=clustered model.attention.clusters=16
    ./cast_report "$dir"
    for checkpoint in "$dir"/cast/*learned*seed=1*/at-*.safetensors; do
        row "$dir/$(basename "$checkpoint" .safetensors).json" ./cast_viz "$checkpoint" --stats --limit 200
    done
    for checkpoint in "$dir"/at-*.json; do tr -d '\n' <"$checkpoint" && echo; done >"$dir/moved.jsonl"
    scripts/results.sh moved "$dir/moved.jsonl"
}
