# shellcheck shell=bash disable=SC2034,SC2154
# Recipes, and the runs that they were chosen from. Budgets are in updates; what is done stays, in $dir, so
# that the same command goes on.

# Trained to its end, tested or not.
whole() { # whole RUN
    local steps
    steps=$(sed -n 's/^ *"steps": *\([0-9]*\).*/\1/p' "$1/config.json" 2>/dev/null)
    [[ $steps ]] && grep -q "^{\"kind\": \"save\", \"step\": $steps," "$1/metrics.jsonl"
}

# Whether the weights that keys begin with are those of a whole run, where they are of one of these.
begins_whole() { # begins_whole RUN KEY=VALUE...
    local key
    for key in "${@:2}"; do
        [[ $key == train.init="$dir"/* ]] || continue
        key=${key#*=}
        whole "${key%/*}" || { echo "$1: left out, ${key%/*} is not trained to its end" >&2; return 1; }
    done
}

# Stages that recipes may begin with. Masked training, of the same keys.
masked() { # masked RUN TASK UPDATES KEY=VALUE...
    cast_train "configs/$2.json" "${@:4}" train.objective=masked train.steps="$3" train.label_smoothing=0 \
        train.eval_every=$((($3 + 3) / 4)) --no-test --out "$1"
}

# The task on easier examples, which are made the first time.
easier() { # easier TASK GRADE: as options of cast_data generate
    case $1-$2 in
    listops-easy) echo --length 16..128 ;;
    listops-intermediate) echo --length 129..500 ;;
    pathfinder-*) echo --difficulty "$2" ;;
    esac
}
on_easier() { # on_easier GRADE RUN TASK UPDATES KEY=VALUE...
    local data=data/$3-$1
    # shellcheck disable=SC2046
    [[ -e $data/train.safetensors ]] || heed ./cast_data generate "$3" $(easier "$3" "$1") --out "$data" || exit
    cast_train "configs/$3.json" "${@:5}" data.dir="$data" train.steps="$4" train.eval_every=$((($4 + 3) / 4)) \
        --no-test --out "$2"
}
easy() { on_easier easy "$@"; }
intermediate() { on_easier intermediate "$@"; }

# A run of so many updates, in eight parts with a validation each, or with those of its train.eval_every. With masked=N,
# easy=N or intermediate=N in front of its keys it begins with the weights of such a stage of N updates; of several each
# begins with those of the one before.
recipe() { # recipe RUN TASK UPDATES [STAGE=N]... KEY=VALUE...
    local run=$dir/$1 task=$2 updates=$3 stage stages=() init=() every
    shift 3
    while [[ ${1-} =~ ^(masked|easy|intermediate)= ]]; do
        stages+=("$1")
        shift
    done
    for stage in "${stages[@]}"; do
        [[ -e $run/last.safetensors ]] || ! begins_whole "$run" "${init[@]}" ||
            "${stage%=*}" "$run-${stage%=*}" "$task" "${stage#*=}" "$@" "${init[@]}"
        init=(train.init="$run-${stage%=*}/last.safetensors")
    done
    set -- "$@" "${init[@]}"
    [[ -e $run/last.safetensors ]] || begins_whole "$run" "$@" || { failed=1; return 0; }
    [[ " $* " == *" train.eval_every="* ]] && every=() || every=(train.eval_every=$(((updates + 7) / 8)))
    cast_train "configs/$task.json" "$@" train.steps="$updates" "${every[@]}" "${test[@]}" --out "$run"
}

# Trained and tested, by this command and the config that it names.
finished() { # finished ARGUMENT...: as of cast_train, the run last
    local run=${!#}
    [[ ! $1 -nt $run/config.json && $(grep -m 1 '"command"' "$run/env.json") == *"\"./cast_train $*\""* ]] &&
        [[ $(./cast_report "$run" --format csv --columns finished) == *$'\n1,1'* ]]
}

# A run that is finished is left alone: cast_train would test it again, for minutes.
cast_train() {
    if finished "$@"; then
        echo "${!#}: finished"
        return
    fi
    heed ./cast_train "$@" || settle $?
}

# What `best` was chosen from: 10 to 32 minutes a row on two quiet cores (results/best.md has the speeds). Names are
# those of the page, which has the rows that were run.
modern="model.positions=rope model.norm=layer model.pre_norm=true train.lr=2e-3"
residual="model.positions=rope model.norm=batch model.pre_norm=true model.conv_residual=true"
words="$residual model.conv=31 train.lr=2e-3"
grey="$residual model.conv=67 model.tok_init=smooth train.lr=2e-3 data.augment=true"
taps="model.conv=67 model.conv_residual=true"
rows="model.conv=255 model.conv_residual=true"
alike="$rows model.depth=4 model.d_emb=32 model.tok_init=smooth train.batch=64"
nested="$residual model.conv=255 model.heads=4 model.attention.clusters=20 train.lr=1e-3 data.augment=true"
thin="$grey model.depth=6 model.d=64"
pairs="$words model.depth=4 model.heads=4 model.d=64 model.d_ff=128 train.batch=16 train.lr=1e-3"
read="train.init=results/weights/text.safetensors"
far="model.conv=257 model.conv_residual=true model.attention.clusters=64"
searched() {
    cat <<END
text base 3200 $modern model.conv=5
image conv-67 5500 $modern model.conv=67 data.augment=true
image thin 4000 $thin
text batch 3100 $words
image deep 2800 $grey model.depth=4
text masked 1550 masked=1550 $words
image masked 2000 masked=2000 $thin
text dropout 3100 $words model.dropout=0.1 data.augment=true
image smooth 5500 $grey
text wide 1200 $words model.d=128 model.d_ff=256 train.lr=1e-3
pathfinder deep 2900 $grey model.depth=4
pathfinder residual 5700 $grey
pathfinder conv 11000 $taps
pathfinder masked 5500 masked=5500 $grey train.lr=1e-3
pathfinder learned 5500 $grey model.depth=4 model.positions=learned train.lr=1e-3
pathfinder conv-deep 5500 $taps model.depth=4
pathfinder conv-masked 5500 masked=5500 $taps
pathfinder conv-augment 11000 $taps data.augment=true
pathfinder conv-then-augment 11000 train.init=$dir/pathfinder-conv/last.safetensors $taps data.augment=true
pathfinder still 5500 masked=5500 $residual model.conv=67 model.tok_init=smooth train.lr=1e-3 model.depth=4
pathfinder begun 5500 $taps
pathfinder grown 11000 train.init=$dir/pathfinder-begun/last.safetensors $taps data.augment=true model.depth=4
pathfinder rows 5500 $rows
pathfinder eased 5500 easy=2750 $taps model.depth=4 train.batch=64
pathfinder eased-rows 8000 easy=5500 $rows model.depth=4 model.d_emb=32 train.batch=64
pathfinder eased-smooth 5500 easy=1500 $alike
pathfinder eased-fast 5500 easy=1500 $alike train.lr=2e-3
pathfinder eased-augment 5500 train.init=$dir/pathfinder-eased-smooth-easy/last.safetensors $alike data.augment=true
pathfinder small 11000 $residual model.conv=67 model.tok_init=smooth train.lr=1e-3 model.depth=4 train.batch=32
listops batch 1600 $residual model.conv=15 train.lr=1e-3 data.augment=true
listops conv 1600 model.conv=15 model.conv_residual=true
listops layer 1600 $residual model.norm=layer model.conv=15 train.lr=1e-3 data.augment=true
retrieval words 500 $pairs
retrieval read 500 $pairs $read
END
}

# The best of what was tried, for 20 epochs of Image and 6.7 of Text, two seeds. Of "masked" ones half of the updates are masked
# training. Pathfinder has 8 epochs, with rows and columns swapped every second time, after snakes of 6 and of 9 dashes;
# ListOps two, after expressions of 16 to 128 and of 129 to 500 tokens; Retrieval two, by Text's net from its weights;
# Path-X a fifth of one, and one validation, of 20,000 images: that takes minutes.
of_best() {
    cat <<END
text 1 6000 $words train.seed=1
text 2 6000 $words train.seed=2
image 1 18000 $thin train.seed=1
text masked-1 3000 masked=3000 $words train.seed=1
image masked-1 9000 masked=9000 $thin train.seed=1
text masked-2 3000 masked=3000 $words train.seed=2
image masked-2 9000 masked=9000 $thin train.seed=2
image masked-learned-1 9000 masked=9000 $thin model.positions=learned train.seed=1
image masked-learned-2 9000 masked=9000 $thin model.positions=learned train.seed=2
image 2 18000 $thin train.seed=2
pathfinder 1 20000 easy=1500 intermediate=3000 $alike data.augment=true data.flip=false train.seed=1
listops 1 3000 easy=2000 intermediate=1500 $nested train.seed=1
retrieval 1 2000 $pairs $read train.seed=1
pathx 1 1000 $far train.batch=32 train.warmup=100 train.eval_every=1000 train.seed=1
END
}

# With one part taken out: of 20 minutes, beside `image thin` and `text batch` of the search, which have them all.
of_parts() {
    cat <<END
image without-rope 4000 $thin model.positions=learned
image without-batch-norm 4000 $thin model.norm=layer
image without-convolution 4000 $thin model.conv=0 model.conv_residual=false
image without-residual 4000 $thin model.conv_residual=false
image without-smooth 4000 $thin model.tok_init=normal
image without-augment 4000 $thin data.augment=false
text without-rope 3100 $words model.positions=learned
text without-batch-norm 3100 $words model.norm=layer
text without-convolution 3100 $words model.conv=0 model.conv_residual=false
text without-residual 3100 $words model.conv_residual=false
END
}

prenorm="model.norm=layer model.pre_norm=true"

# The papers' model, of the shipped sizes and with nothing of rope, convolution, pretraining, augmentation or averages,
# but norm, batch, dropout and decay as here: 2, 60, 100 and 10 epochs; exact attention on Text for 10, single
# assignment on Image for 50. More than 2 of Text overfit, and of few reviews the accuracy chooses badly
# (results/paper.md); "layer-1" is configs/text.json as it is.
of_papers() {
    cat <<END
text 1 1800 model.norm=batch model.pre_norm=true train.seed=1
text 2 1800 model.norm=batch model.pre_norm=true train.seed=2
text by-loss-3 1800 model.norm=batch model.pre_norm=true train.best=loss train.seed=3
text by-loss-4 1800 model.norm=batch model.pre_norm=true train.best=loss train.seed=4
pathfinder 1 75000
image 1 90000 model.dropout=0.3 model.dropout_embed=0 train.weight_decay=0.05
listops 1 60000 train.batch=16 model.norm=batch model.pre_norm=true
text layer-1 1800 train.eval_every=900
text full 9000 model.norm=batch model.pre_norm=true model.attention.type=full
image sa 45000 model.attention.mechanism=sa_topk model.dropout=0.3 model.dropout_embed=0 train.weight_decay=0.05
END
}

# What rows of `paper` were chosen from, where the shipped config's training falls short: 1,800 updates of Text are two
# epochs, 4,500 five; 11,000 of Pathfinder are 8.8, 25,000 twenty; 2,700 of Image three, 9,000 ten; all of ListOps two
# thirds of one, in batches of 64 or of 16.
searched_for_papers() {
    cat <<END
text layer 1800 $prenorm
text batch 1800 model.norm=batch model.pre_norm=true
text slow 1800 model.norm=scale model.pre_norm=false train.lr=5e-4
text dropout 1800 $prenorm model.dropout=0.1 train.weight_decay=0.05
text five 4500 $prenorm model.dropout=0.1 train.weight_decay=0.05
text five-decay 4500 $prenorm model.dropout=0.1 train.weight_decay=0.5
text batch-fast 1800 model.norm=batch model.pre_norm=true train.lr=2e-3
pathfinder short 11000
pathfinder dropout 11000 model.dropout=0.1 train.weight_decay=0.05
pathfinder layer 11000 model.norm=layer
pathfinder slow 11000 train.lr=5e-4
image batch 2700 model.norm=batch train.lr=2e-3
image layer 2700
image dropout 9000 model.dropout=0.3 model.dropout_embed=0 train.weight_decay=0.05
image decay 9000 model.dropout=0.3 model.dropout_embed=0 train.weight_decay=0.5
listops small 4000 train.batch=16
listops small-batch 4000 train.batch=16 model.norm=batch model.pre_norm=true
listops small-slow 4000 train.batch=16 train.lr=5e-4
listops short 1000
pathfinder fast 11000 train.lr=2e-3
pathfinder twenty 25000 train.weight_decay=0.1
END
}

check_rows() { # check_rows TASKS ROWS TASK|ROW...: whether each is one of those
    local want
    for want in "${@:3}"; do
        [[ " $1 $2 " == *" $want "* ]] || wrong "no rows of '$want'; there are of $1, or one by one $2"
    done
}

recipes() { # recipes LIST [TASK|ROW...]: its rows, of these tasks or by these names, as "text-1"
    local task name updates keys tasks rows
    tasks=$("$1" | cut -d ' ' -f 1 | sort -u | xargs)
    rows=$("$1" | cut -d ' ' -f 1,2 | tr ' ' - | xargs)
    check_rows "$tasks" "$rows" "${@:2}"
    while read -r task name updates keys <&3; do
        [[ $# -eq 1 || " ${*:2} " == *" $task "* || " ${*:2} " == *" $task-$name "* ]] || continue
        # shellcheck disable=SC2086
        recipe "$task-$name" "$task" "$updates" $keys
    done 3< <("$1")
    ./cast_report "$dir"
}

search() { # search [TASK|ROW...]
    dir=runs/best-search
    test=(--no-test)
    recipes searched "$@"
}

best() { # best [TASK|ROW...]
    dir=runs/best
    test=()
    recipes of_best "$@"
}

parts() { # parts [TASK|ROW...]
    dir=runs/best-parts
    test=(--no-test)
    recipes of_parts "$@"
}

paper_search() { # paper_search [TASK|ROW...]
    dir=runs/paper-search
    test=(--no-test)
    recipes searched_for_papers "$@"
}

paper() { # paper [TASK|ROW...]
    dir=runs/paper
    test=()
    recipes of_papers "$@"
}
