#!/bin/bash
# What figures of speed are reckoned by: the shares of cast_bench --scaling, the interval of scripts/turns.py, the model
# of scripts/scaling.py.
set -u
. tests/training.sh
if ! python3 -c '' 2>/dev/null; then
    echo "ok # SKIP python3 is not there"
    exit 0
fi
make_data "$tmp/data" listops 20 9 11 60
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60, "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4 } }
END
scaling=("$bin/cast_bench" "$tmp/tiny.json" --scaling --json --seconds 0.05)
"${scaling[@]}" --threads 3 >"$tmp/threads" 2>"$tmp/log"
result $? "cast_bench --scaling" "$tmp/log"

check "the machine's limits alone" grep -qxE '\{"threads":2,.*"peak_gflops":[0-9.]+,"gemm_gflops":[0-9.]+,"memory_gb_per_s":[0-9.]+\}' \
    <("$bin/cast_bench" --json --threads 2)

python() { # python NAME [ARGUMENT...] <PROGRAM
    local name=$1
    shift
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=scripts python3 - "$@" >"$tmp/log" 2>&1
    result $? "$name" "$tmp/log"
}

python "its shares are those of all threads' time" "$tmp/threads" <<'END'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [r["threads"] for r in rows] == [1, 2, 3], rows
near = lambda a, b: abs(a - b) < 1e-9 * max(1, abs(b))
for r in rows:
    step, n = r["batch"] / r["samples_per_s"], r["threads"]
    assert near(r["faster"], r["gflops"] / rows[0]["gflops"]), r
    assert near(r["efficiency"], r["faster"] / n), r
    assert near(r["lost_serial"], (n - 1) * rows[0]["serial_seconds"] / (n * step)), r
    assert near(sum(r[k] for k in r if k.startswith("lost_")) + r["efficiency"], 1), r
    # Of the time of n threads: all, less what they worked in lanes, less what one works outside of them.
    idle = r["step_seconds"] * n - r["busy_seconds"] - r["serial_seconds"] * n
    assert r["lost_waiting"] == 0 if n == 1 else near(r["lost_waiting"], idle / (r["step_seconds"] * n)), r
END

python "the interval of a median is of the right two of its values" <<'END'
from turns import interval
assert interval([1, 2, 3, 4, 5]) is None          # 1/32 lie below all, 3.1 %
assert interval([4, 2, 6, 1, 5, 3]) == (1, 6)     # 1/64
assert interval(list(range(8))) == (0, 7)         # 9/256 below the second: 3.5 %
assert interval(list(range(9))) == (1, 7)         # 10/512: 2.0 %
assert interval(list(range(40))) == (13, 26)      # as tables of the sign test have it
END

python "the model's steps, reckoned by hand" <<'END'
from types import SimpleNamespace
from scaling import predict, lanes_take, ALONE
near = lambda a, b: abs(a - b) < 1e-12
options = SimpleNamespace(bandwidth=1e9, latency=1e-5, memory=6e10)
# Two documents of one tile and 1 s each; .1 s beside them.
cost = {"task": "t", "batch": 2, "per_example": 1, "most_tokens": 256, "samples_per_s": 2 / 2.1, "serial_seconds": 0.1,
        "summed": 5000000, "parameters": 25000000}
one, two = predict(cost, None, 1, 1, options), predict(cost, None, 2, 1, options)
assert near(one["efficiency"], 1) and near(one["lost_waiting"], 0) and near(one["faster"], 1)
step = 1 + 0.1 + 12 * 5e6 / 6e10                  # sums are added once, for two threads
assert near(two["faster"], 2.1 / step) and near(two["efficiency"], 2.1 / step / 2)
assert near(two["lost_serial"], 0.1 / 2 / step)
assert near(two["efficiency"] + two["lost_waiting"] + two["lost_serial"], 1)
hosts = predict(cost, None, 1, 2, options)        # a document each; sums there, weights back, at 1 GB/s
exchange = 4 * 5e6 / 1e9 + 2e-5 + 4 * 25e6 / 1e9
assert near(hosts["samples_per_s"], 2 / (1 + 0.1 + exchange)) and near(hosts["lost_exchange"], exchange / (1.1 + exchange))
assert near(lanes_take([(1, 4)], 1), 1)           # one lane; with help all but a part of it is halved
assert near(lanes_take([(1, 4)], 2), ALONE + (1 - ALONE) / 2)
assert near(lanes_take([(1, 1)], 2), 1)           # one tile is one thread's
assert near(lanes_take([(3, 1), (2, 1), (2, 1)], 2), 4)
END
