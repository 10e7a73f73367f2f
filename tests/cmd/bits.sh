#!/bin/bash
# Training gives the same bits at any number of threads, with either flavour of OpenBLAS (one that is not installed is
# looked for in build/openblas, unpacked), and stopped and resumed.
set -u
. tests/training.sh
tiny_configs 20 4

train() { # train OUT THREADS CONFIG key=value...
    local out=$1 threads=$2
    shift 2
    "$bin/cast_train" "$@" --out "$out" --threads "$threads" >>"$tmp/log" 2>&1
}

uses() { # uses RUN DIRECTORY: whether that flavour of OpenBLAS computed the run
    grep -q "OpenBLAS [0-9.]* ${2##*openblas-}" "$1/env.json"
}

loads() { # loads DIRECTORY: whether programs take the OpenBLAS that is there, if they are told to
    LD_LIBRARY_PATH=$1 ldd "$bin/cast_train" | grep -qF "$1/"
}

same() { # same NAME CONFIG key=value...
    local name=$1 want threads flavour run=$tmp/run
    shift
    rm -rf "$run"*
    : >"$tmp/log"
    train "$run" 1 "$@" || { result 1 "$name: trains" "$tmp/log"; return; }
    want=$(hash_of "$run")
    for threads in 2 3 8; do
        train "$run-$threads" $threads "$@"
        [ "$(hash_of "$run-$threads")" = "$want" ]
        result $? "$name: $threads threads" "$tmp/log"
    done
    OMP_DYNAMIC=true OMP_SCHEDULE=dynamic,1 train "$run-env" 3 "$@"
    [ "$(hash_of "$run-env")" = "$want" ]
    result $? "$name: OMP_DYNAMIC, OMP_SCHEDULE" "$tmp/log"
    train "$run-stop" 2 "$@" --stop-at 7 && train "$run-stop" 3 "$@"
    [ "$(hash_of "$run-stop")" = "$want" ] && diff <(all_metrics_of "$run") <(all_metrics_of "$run-stop") >>"$tmp/log"
    result $? "$name: stopped at 7 and resumed, metrics too" "$tmp/log"
    for flavour in /usr/lib/*/openblas-openmp /usr/lib/*/openblas-pthread build/openblas/usr/lib/*/openblas-*; do
        # Without the one that programs find by themselves, and those of other processors.
        if [ ! -e "$flavour/libopenblas.so.0" ] || uses "$run" "$flavour" || ! loads "$flavour"; then continue; fi
        for threads in 1 2; do
            LD_LIBRARY_PATH=$flavour${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} train "$run-blas" $threads "$@"
            [ "$(hash_of "$run-blas")" = "$want" ] && uses "$run-blas" "$flavour"
            result $? "$name: ${flavour##*/}, $threads threads" "$tmp/log"
            rm -rf "$run-blas"
        done
        other=$flavour
    done
}

other=''
same "ragged lengths" "$tmp/single.json"
[ "$other" ] || echo "ok # SKIP another flavour of OpenBLAS: one alone is installed here"
same "batch norm" "$tmp/single.json" model.norm=batch
same "dropout" "$tmp/single.json" model.dropout=0.2 model.norm=scale model.pre_norm=false \
    model.attention='{"type":"full"}'
while read -r mechanism; do
    same "$mechanism" "$tmp/single.json" model.attention.type="$mechanism" train.steps=12
    mechanisms=$((${mechanisms:-0} + 1))
done < <("$bin/cast_train" --help keys | sed -nE 's/^  model.attention.type=([a-z0-9-]+):.*/\1/p')
check "of every mechanism" test "${mechanisms:-0}" -ge 12
same "accumulation of 2" "$tmp/single.json" train.accumulate=2 model.attention.mechanism=sa_topk
same "averages" "$tmp/single.json" train.ema=0.9 model.norm=batch train.label_smoothing=0.1 model.dropout_ffn=0.1
same "a batch of one" "$tmp/single.json" train.batch=1 model.d=96 model.d_ff=192 model.norm=batch
same "pairs" "$tmp/pairs.json" model.norm=batch model.dropout=0.1 train.accumulate=2 model.pooling=cls \
    model.attention.attention_fn=laplace
same "masked training" "$tmp/single.json" train.objective=masked train.accumulate=2
same "masked training, batch norm" "$tmp/pairs.json" model.norm=batch model.dropout=0.1 train.objective=masked \
    model.conv=3 model.conv_residual=true model.positions=rope
same "augmentation" "$tmp/pairs.json" data.augment=true data.drop=0.3
same "augmentation, masked training" "$tmp/single.json" data.augment=true train.objective=masked train.steps=12
