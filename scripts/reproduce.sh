#!/bin/bash
# The experiments that results/ tells of, and some that it will. Stopped at any moment, the same command goes on.
#   reproduce.sh clusters            image: 4 to 64 clusters, two seeds, an epoch each
#   reproduce.sh counts              the same counts, one seed, both ways of choosing members, with dropout, ten epochs
#                                    each; their speed and memory
#   reproduce.sh components TASK     image or listops: CAST with one part changed at a time
#   reproduce.sh first [MINUTES [TASK...]]
#                                    five tasks, or these: CAST and full attention, and single assignment on image and
#                                    listops, so many minutes of training each [30]; more than last time go on from there,
#                                    fewer are refused
#   reproduce.sh efficiency [SECONDS]
#                                    speed and memory of every mechanism at Text's shapes over length, and of CAST at
#                                    fixed numbers and at fixed sizes of clusters, so many seconds a row [3], in a
#                                    directory of its own; rows that are there are of whatever build measured them
#   reproduce.sh approximation [SHARE]
#                                    how near attentions come to exact attention, over their budget: on random numbers,
#                                    and with weights that were trained with full attention on Text and Image
#   reproduce.sh swap [SHARE]        accuracy of these weights with other attentions in place of full
#   reproduce.sh budget [SHARE]      Image and Text, a quarter of an hour's updates of every attention
#   reproduce.sh directions [SHARE]  Image: CAST learned and frozen, lsh, smyrf and clustered in clusters of 64 tokens,
#                                    three seeds, 5 epochs; how surrogate tokens move
#                                    SHARE: of the updates and examples [1], in a directory of its own
#   reproduce.sh paper [TASK...]     the papers' model, for 2 to 100 epochs: minutes to hours a run
#   reproduce.sh paper-search [TASK...]
#                                    the short runs that its rates, norms and so on were chosen from
#   reproduce.sh best [TASK...]      the best recipes found, one or two seeds: 40 minutes to 3 hours a run
#   reproduce.sh parts [TASK...]     image-thin and text-batch of the search with one part taken out, 20 minutes a run
#   reproduce.sh search [TASK...]    the runs of 10 to 32 minutes that the recipes of "best" were chosen from
#                                    TASK may be one run here, by its name in the tables: best text-masked-1
set -eu
export LC_ALL=C.UTF-8 # numbers with a point, whatever the user writes
unset CDPATH
cd "$(dirname "$0")/.."

wrong() { # wrong MESSAGE
    echo "reproduce.sh: $*" >&2
    exit 64
}
above_zero() { # above_zero NAME VALUE
    [[ $2 =~ ^[0-9]*\.?[0-9]+$ && $2 == *[1-9]* ]] || wrong "$1 must be a number above 0, got '$2'"
}
check_tasks() { # check_tasks KNOWN TASK...: whether each is one of those
    local task
    for task in "${@:2}"; do
        [[ " $1 " == *" $task "* ]] || wrong "no rows of '$task'; there are of $1"
    done
}

# A program that a signal to this script alone reaches too: it saves what it has and ends, and so does the script.
heed() { # heed COMMAND...
    local child status=0
    "$@" &
    child=$!
    trap 'kill -TERM $child 2>/dev/null' INT TERM HUP
    while wait $child && status=0 || status=$?; kill -0 $child 2>/dev/null; do :; done
    trap - INT TERM HUP
    return $status
}

# What a program says, in a file that is whole or not there; of each process under another name as long as it is not.
rows_of() { # rows_of FILE COMMAND...
    local file=$1 part=$1.part.$$ status=0
    shift
    heed "$@" >"$part" || status=$?
    if [ $status -eq 0 ]; then mv "$part" "$file"; else rm -f "$part"; fi
    return $status
}

# What ends badly, for want of data or of memory say, does not hold up the others; what is stopped stops them.
failed=0
settle() { # settle STATUS
    case $1 in 0) ;; 75 | 129 | 130 | 141 | 143) exit "$1" ;; *) failed=1 ;; esac
}

sweep() { # sweep ARGUMENT...
    heed ./cast_sweep "$@" || settle $?
}

# The shipped config, by a schedule that does not mind when it ends.
first() { # first TASK MINUTES
    local timed=("configs/$1.json" train.schedule=rsqrt train.epochs=1000000 train.minutes="$2" train.eval_every=500
        --out "runs/first/$1")
    sweep "${timed[@]}" model.attention.type=cast,full
    case $1 in image | listops) sweep "${timed[@]}" model.attention.mechanism=topk,sa_topk ;; esac
}

# Rows of cast_bench, a document at a time on one thread, once each: a file that is whole is kept.
bench() { # bench FILE KEY=VALUE-OR-OPTION...
    local file=$1
    shift
    [ -s "$file" ] && return
    # shellcheck disable=SC2086
    rows_of "$file" ./cast_bench configs/text.json $scale train.batch=1 --threads 1 --seconds "$seconds" --json "$@"
}

efficiency() {
    local dir=runs/efficiency$suffix short=512,1024,2048,4096,8192 long n
    local rows=$dir/rows
    mkdir -p "$rows"
    long=$short,16384
    # A clusters key goes to all that have it; naive keeps 64 N^2 bytes.
    bench "$rows/1.jsonl" --lengths $long --mechanisms cast,full,local,clustered,i-clustered,lsh,smyrf,performer,linear,linformer,nystrom \
        model.attention.clusters=100 model.attention.rounds=1
    bench "$rows/2.jsonl" --lengths $short --mechanisms naive
    bench "$rows/3.jsonl" --lengths $long --mechanisms lsh,smyrf model.attention.rounds=4
    sed -E 's/"mechanism": ?"(lsh|smyrf)"/"mechanism":"\1, 1 round"/' "$rows/1.jsonl" >"$dir/mechanisms.jsonl"
    cat "$rows/2.jsonl" >>"$dir/mechanisms.jsonl"
    sed -E 's/"mechanism": ?"(lsh|smyrf)"/"mechanism":"\1, 4 rounds"/' "$rows/3.jsonl" >>"$dir/mechanisms.jsonl"
    bench "$rows/count.jsonl" --lengths $long,32768,65536 --mechanisms cast model.attention.clusters=100
    for n in 512 1024 2048 4096 8192 16384 32768 65536; do
        bench "$rows/size-$n.jsonl" --lengths $n --mechanisms cast model.attention.clusters=$((n / 64)) model.attention.cluster_size=64
    done
    sed 's/"mechanism": *"cast"/"mechanism":"cast, 100 clusters"/' "$rows/count.jsonl" >"$dir/cast.jsonl"
    for n in 512 1024 2048 4096 8192 16384 32768 65536; do
        sed 's/"mechanism": *"cast"/"mechanism":"cast, 64 tokens a cluster"/' "$rows/size-$n.jsonl"
    done >>"$dir/cast.jsonl"
    for n in mechanisms cast; do
        ./cast_report "$dir/$n.jsonl" --what length
        ./cast_report "$dir/$n.jsonl" --what growth
        ./cast_report "$dir/$n.jsonl" --what length --plot "$dir/$n.svg"
    done
}

. scripts/comparisons.sh
. scripts/recipes.sh

case ${1-} in
    '') wrong "no experiment; --help lists them" ;;
    -h | --help | help)
        sed -n '2,/^set/s/^# \{0,1\}//p' scripts/reproduce.sh | sed '/^set/d'
        exit
        ;;
esac
if [ ! -x cast_train ]; then
    echo "reproduce.sh: cast_train is not there: run 'make' first" >&2
    exit 66
fi

case $#,$1 in
    [12],approximation | [12],swap | [12],budget | [12],directions)
        share=${2:-1}
        above_zero SHARE "$share"
        suffix=${2:+-$2}
        "$1"
        ;;
    *,search | *,best | *,parts | *,paper | *,paper-search) "${1//-/_}" "${@:2}" ;;
    [12],efficiency)
        seconds=${2:-3}
        above_zero SECONDS "$seconds"
        suffix=${2:+-$2}
        efficiency
        ;;
    1,clusters)
        sweep configs/image.json train.epochs=1 train.warmup=200 model.attention.clusters=4,8,16,32,64 \
            --seeds 1..2 --out runs/clusters
        ;;
    1,counts)
        sweep configs/image.json train.epochs=10 model.dropout=0.1 train.weight_decay=0.05 \
            model.attention.mechanism=topk,sa_topk model.attention.clusters=4,8,16,32,64 --out runs/counts
        for n in 4 8 16 32 64; do
            ./cast_bench configs/image.json model.attention.clusters=$n --mechanisms cast --json
        done >runs/counts/speed.jsonl.part
        mv runs/counts/speed.jsonl.part runs/counts/speed.jsonl
        ;;
    1,components) wrong "components is of image or of listops: name one" ;;
    2,components)
        check_tasks "image listops" "$2"
        case $2 in
            image) length=(train.epochs=1 train.warmup=200) sizes=fixed,32,128 ;;
            listops) length=(train.epochs=1 train.warmup=100) sizes=fixed,100,400 ;;
        esac
        for part in summaries=true,false intra=true,false surrogates=learned,frozen mechanism=topk,sa_topk \
            attention_fn=softmax,laplace cluster_size=$sizes; do
            sweep "configs/$2.json" "${length[@]}" "model.attention.$part" --out "runs/components-$2"
        done
        ;;
    *,first)
        minutes=${2:-30}
        above_zero MINUTES "$minutes"
        tasks="listops image text retrieval pathfinder"
        check_tasks "$tasks" "${@:3}"
        [ $# -le 2 ] || tasks=${*:3}
        for task in $tasks; do first "$task" "$minutes"; done
        ;;
    *) wrong "no experiment '$*'; --help lists them" ;;
esac
exit $failed
