#!/bin/bash
# Programs under limits of the system: memory that may not be executed.
set -u
. tests/training.sh
make_data "$tmp/data" listops 40 9 9 60
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "log_every": 5 } }
END
train=("$bin/cast_train" "$tmp/tiny.json" --threads 2)
"${train[@]}" --out "$tmp/whole" >"$tmp/out" 2>&1
result $? "trains" "$tmp/out"

# ---- memory that may not be executed ----

if ! "${CC:-gcc}" -o "$tmp/deny_exec" tests/cmd/deny_exec.c 2>"$tmp/out" || ! "$tmp/deny_exec" /bin/true; then
    echo "ok - # SKIP no filters of system calls here"
else
    expect 0 'test accuracy of best' "trains without executable memory of its own" \
        "$tmp/deny_exec" "${train[@]}" --out "$tmp/denied"
    if grep -q 'libxsmm' "$tmp/whole/env.json"; then
        check "which is said once" test "$(grep -c 'warning: libxsmm is left out: .*Operation not permitted' "$tmp/out")" = 1
        check "stands in the banner" grep -qE '^ +OpenBLAS .*, without libxsmm' "$tmp/out"
        check "and is kept" grep -q '"blas": "OpenBLAS .*, without libxsmm' "$tmp/denied/env.json"
    fi
    expect 0 '9 examples' "evaluates so" "$tmp/deny_exec" "$bin/cast_eval" "$tmp/whole"
fi
