#!/bin/bash
# Numbers that are not finite: wherever they come up, they are told with the first place that has them, and end in no
# figure. Checkpoints are edited to have them, their checksums made right again.
set -u
. tests/training.sh
make_data "$tmp/data" listops 40 9 23 60
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 2, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "eval_every": 10, "log_every": 5 } }
END
train=("$bin/cast_train" "$tmp/tiny.json" --threads 1)
"${train[@]}" --out "$tmp/run" >"$tmp/out" 2>&1
result $? "a run" "$tmp/out"

nan=$(repeat 8 '\xff') # as one double or two floats
zero=$(repeat 8 '\x00')
largest='\xff\xff\x7f\x7f'
[ "${CAST_MODE:-}" != double ] || largest='\xff\xff\xff\xff\xff\xff\xef\x7f'

# ---- in training: validation, tests ----

spoilt() { # spoilt NAME TENSOR BYTES: a copy of the run
    cp -r "$tmp/run" "$tmp/$1"
    sed -i '/"test"/d' "$tmp/$1/metrics.jsonl"
    edit "$tmp/$1/last.safetensors" "$2" "$3"
}
tests() { grep -c '"kind": "test"' "$1/metrics.jsonl"; }
spoilt weights blocks.1.fc1.weight "$nan"
what="parameter 'blocks.1.fc1.weight': [12] of its 256 values (is|are) not finite"
expect 70 "cast_train: the test of last \(update 20\): $what. The state of update 20 is saved" "weights, at the test" \
    "${train[@]}" --out "$tmp/weights"
check "which has no figure" test "$(tests "$tmp/weights")" = 0
edit "$tmp/weights/last.safetensors" state.evaluated "$zero"
expect 70 "cast_train: validation \(update 20\): $what" "at a validation" "${train[@]}" --out "$tmp/weights"
check "which has none either" test "$(grep -c '"kind": "val"' "$tmp/weights/metrics.jsonl")" = 2
cp -r "$tmp/run" "$tmp/best"
edit "$tmp/best/best.safetensors" state.update '\x05'
edit "$tmp/best/best.safetensors" blocks.1.fc1.weight "$nan"
edit "$tmp/best/last.safetensors" state.best_update '\x05'
expect 70 "cast_train: the test of best \(update 5\): $what" "weights of the best" "${train[@]}" --out "$tmp/best"
spoilt layer blocks.1.fc2.bias "$(repeat 16 "$largest")"
where='the last norm'
expect 70 "the test of last \(update 20\): example 0 of test has loss nan; the first that is not finite there: $where" \
    "a layer's output" "${train[@]}" --out "$tmp/layer"
check "is no finished run" bash -c "'$bin/cast_report' '$tmp/layer' | grep -q '0 of 1'"

# ---- of a trained model ----

eval=("$bin/cast_eval" --threads 1)
expect 70 "weights/last.safetensors: $what" "weights, evaluated" "${eval[@]}" "$tmp/weights" --last
expect 70 "$what" "as JSON" "${eval[@]}" "$tmp/weights" --last --json
expect 70 "$what" "as predictions" "${eval[@]}" "$tmp/weights" --last --predict "$tmp/p.csv"
check "of which none is written" test ! -e "$tmp/p.csv"
expect 70 "$what" "with another attention" "${eval[@]}" "$tmp/weights" --last model.attention.type=full
expect 70 "layer/last.safetensors: example 0 of val has loss nan; .*: $where" "a layer's output, evaluated" \
    "${eval[@]}" "$tmp/layer" --last --split val
viz=("$bin/cast_viz" --threads 1)
expect 70 "$what" "statistics of clusters" "${viz[@]}" "$tmp/weights" --last --stats
expect 70 "example 0 of test has loss nan; .*: $where" "of a layer" "${viz[@]}" "$tmp/layer" --last --stats
expect 70 "example 3 of test has loss nan; .*: $where" "pictures of clusters" \
    "${viz[@]}" "$tmp/layer" --last --index 3 --out "$tmp/pictures"

# ---- in what an update would commit ----

# A state at update 5 that makes the next one bad, and stays as it is.
refuses() { # refuses NAME PATTERN TENSOR BYTES KEY...
    local name=$1 pattern=$2 tensor=$3 bytes=$4 was
    shift 4
    rm -rf "$tmp/half"
    "${train[@]}" "$@" --out "$tmp/half" --stop-at 5 >"$tmp/out" 2>&1
    edit "$tmp/half/last.safetensors" "$tensor" "$bytes"
    was=$(hash_of "$tmp/half")
    expect 70 "update 6: $pattern" "$name" "${train[@]}" "$@" --out "$tmp/half"
    check "$name: nothing is committed" test "$(hash_of "$tmp/half")" = "$was"
}
large=$(repeat 32 '\xff\xff\x7f\x6f') # whose square is infinite
moments="'tok.weight' or AdamW's moments of it would not be finite"
[ "${CAST_MODE:-}" != double ] || moments='loss .*, norm of the gradients inf: not finite' # squares in double, too
refuses "gradients whose squares overflow" ".*$moments" fc2.weight "$large"
refuses "activations whose squares overflow" "loss [0-9.]+, .*: 'blocks.0.norm1.bn.running_var' would not be finite" \
    tok.weight "$large$large" model.norm=batch
refuses "moments of before" ".*'fc1.bias' or AdamW's moments of it would not be finite" state.v.fc1.bias "$nan"

# ---- as 0.1.0 left such runs ----

cp -r "$tmp/run" "$tmp/older"
sed -i -E '/"which"/s/"loss": [^,]*/"loss": null/' "$tmp/older/metrics.jsonl"
expect 0 ' 0 of 1 ' "a test whose loss is not finite ends no run" "$bin/cast_report" "$tmp/older"
