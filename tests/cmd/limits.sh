#!/bin/bash
# Programs under limits of the system: memory that may not be executed, small stacks, too few threads.
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

read -ra cc <<<"${CC:-gcc}"
if ! "${cc[@]}" -o "$tmp/deny_exec" tests/cmd/deny_exec.c 2>"$tmp/out" || ! "$tmp/deny_exec" /bin/true; then
    echo "ok - # SKIP no filters of system calls here"
else
    expect 0 'test accuracy of best' "trains without executable memory of its own" \
        "$tmp/deny_exec" "${train[@]}" --out "$tmp/denied"
    if grep -q 'libxsmm' "$tmp/whole/env.json"; then
        check "which is said once" test "$(grep -c 'warning: libxsmm is left out: .*Operation not permitted' "$tmp/out")" = 1
        check "stands in the banner" grep -qE '^ +OpenBLAS .*, without libxsmm' "$tmp/out"
        check "and is kept" grep -q '"blas": "OpenBLAS .*, without libxsmm' "$tmp/denied/env.json"
    fi
    expect 0 'warning: OpenBLAS does not know .*OPENBLAS_CORETYPE=[A-Z]' "a processor that OpenBLAS does not know is told" \
        env OPENBLAS_CORETYPE=Prescott "$tmp/deny_exec" "${train[@]}" --out "$tmp/unknown"
    expect 0 '9 examples' "evaluates so" "$tmp/deny_exec" "$bin/cast_eval" "$tmp/whole"
fi

# ---- stacks ----

for program in bench data eval export report step sweep train viz; do
    (
        ulimit -s 64
        expect 71 "^cast_$program: a stack of at most 64 kB .ulimit -s.; 1024 kB are needed" "cast_$program refuses a small stack" \
            "$bin/cast_$program" --help
    )
done
(
    ulimit -S -s 64
    expect 0 'test accuracy of best' "a stack that may grow does" "${train[@]}" --out "$tmp/soft"
)
check "to the same bits" test "$(hash_of "$tmp/soft")" = "$(hash_of "$tmp/whole")"

# ---- threads ----

turns='warning: 300 threads on [0-9]+ processors?: they take turns'
[ "$(scripts/processors.sh)" -lt 300 ] || turns='test accuracy of best'
expect 0 "$turns" "more threads than processors" "${train[@]}" --threads 300 --out "$tmp/many"
check "make the same bits" test "$(hash_of "$tmp/many")" = "$(hash_of "$tmp/whole")"
other=(setpriv --reuid=54321 --regid=54321 --clear-groups)
chmod 755 "$tmp"
if [ "$(id -u)" = 0 ] && "${other[@]}" test -x "$bin/cast_train" 2>/dev/null; then
    mkdir -m 777 "$tmp/theirs"
    (
        ulimit -u 2
        expect 71 '^cast_train: 4 threads were asked for, but no more than [12] can be made' "threads that cannot be made" \
            "${other[@]}" "${train[@]}" --threads 4 --out "$tmp/theirs/run"
    )
else
    echo "ok - # SKIP not root, or no other user can run it here: threads that cannot be made"
fi
