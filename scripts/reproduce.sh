#!/bin/bash
# The experiments that results/ tells of. Stopped at any moment, the same command goes on.
#   reproduce.sh clusters            image: 4 to 64 clusters, two seeds, an epoch each
#   reproduce.sh components TASK     image or listops: CAST with one part changed at a time
#   reproduce.sh first [MINUTES [TASK...]]
#                                    five tasks, or these: CAST and full attention, and single assignment on image and
#                                    listops, so many minutes of training each [30]; more than last time go on from there,
#                                    fewer are refused
set -eu
cd "$(dirname "$0")/.."

failed=0
sweep() { # sweep ARGUMENT...: a run that fails, for want of data say, does not hold up other sweeps
    local status=0
    ./cast_sweep "$@" || status=$?
    case $status in 0) ;; 1) failed=1 ;; *) exit $status ;; esac
}

# The shipped config, by a schedule that does not mind when it ends.
first() { # first TASK MINUTES
    local timed=("configs/$1.json" train.schedule=rsqrt train.epochs=1000000 train.minutes="$2" train.eval_every=500
        --out "runs/first/$1")
    sweep "${timed[@]}" model.attention.type=cast,full
    case $1 in image | listops) sweep "${timed[@]}" model.attention.mechanism=topk,sa_topk ;; esac
}

case $#,${1-} in
    1,clusters)
        sweep configs/image.json train.epochs=1 train.warmup=200 model.attention.clusters=4,8,16,32,64 \
            --seeds 1..2 --out runs/clusters
        ;;
    2,components)
        case $2 in
            image) length=(train.epochs=1 train.warmup=200) sizes=fixed,32,128 ;;
            listops) length=(train.epochs=1 train.warmup=100) sizes=fixed,100,400 ;;
            *) echo "reproduce.sh: components of image or listops, got $2" >&2; exit 64 ;;
        esac
        for part in summaries=true,false intra=true,false surrogates=learned,frozen mechanism=topk,sa_topk \
            attention_fn=softmax,laplace cluster_size=$sizes; do
            sweep "configs/$2.json" "${length[@]}" "model.attention.$part" --out "runs/components-$2"
        done
        ;;
    *,first)
        minutes=${2:-30}
        tasks=("${@:3}")
        [ ${#tasks[@]} -gt 0 ] || tasks=(listops image text retrieval pathfinder)
        for task in "${tasks[@]}"; do first "$task" "$minutes"; done
        ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '/^set/d' >&2; exit 64 ;;
esac
exit $failed
