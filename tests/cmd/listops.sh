#!/bin/bash
# ListOps against an evaluator that has nothing of ours: it works on the binary tree that a row of LRA's files prints,
# as LRA's program does, where ours drops the parentheses. Then figures of the set, counted by it.
#   ROWS=2400   rows to generate
set -u
official=${CAST_DATA:-}/samples/listops_official_100.tsv
. tests/training.sh
if ! python3 -c '' 2>/dev/null; then
    echo "ok - an independent evaluator # SKIP python3 is not there"
    exit 0
fi
cat >"$tmp/evaluate.py" <<'END'
"""evaluate.py FILE...: works out every row; prints figures, and each row whose target is wrong."""
import statistics, sys

APPLY = {"[MIN": min, "[MAX": max, "[MED": lambda a: int(statistics.median(a)), "[SM": lambda a: sum(a) % 10}

def parse(words):
    """A word, or a pair of what stands between parentheses."""
    word = next(words)
    if word != "(":
        return word
    pair = parse(words), parse(words)
    assert next(words) == ")"
    return pair

def evaluate(tree):
    """(value, nesting); of an operator that is still open, ((operator, values), nesting of the values)."""
    if not isinstance(tree, tuple):
        return (int(tree) if tree.isdigit() else tree), 0
    (left, deep), (right, deeper) = evaluate(tree[0]), evaluate(tree[1])
    if right == "]":
        return APPLY[left[0]](left[1]), deep + 1
    left = left if isinstance(left, tuple) else (left, [])
    return (left[0], left[1] + [right]), max(deep, deeper)

rows, lengths, wrong, targets, operators, nestings = 0, 0, 0, [0] * 10, dict.fromkeys(APPLY, 0), set()
for name in sys.argv[1:]:
    with open(name, newline="") as f:
        assert f.readline() == "Source\tTarget\r\n", name
        for row, line in enumerate(f, 1):
            source, target = line.rstrip("\r\n").split("\t")
            words = source.split(" ")
            rest = iter(words)
            value, nesting = evaluate(parse(rest))
            if value != int(target) or next(rest, None) is not None:
                wrong += 1
                print(f"{name}: row {row}: target {target}, worked out {value}")
            rows += 1
            lengths += sum(w not in "()" for w in words)
            targets[int(target)] += 1
            nestings.add(nesting)
            for operator in operators:
                operators[operator] += words.count(operator)
print(f"{rows} rows, {wrong} wrong; length {lengths / rows:.1f}; nesting {sorted(nestings)}")
print("targets", " ".join(f"{100 * n / rows:.2f}" for n in targets), "%")
total = sum(operators.values())
print("operators", " ".join(f"{name} {100 * n / total:.2f}" for name, n in operators.items()), "%")
sys.exit(wrong > 0)
END
evaluate() { python3 "$tmp/evaluate.py" "$@"; }
rows=${ROWS:-2400} tenth=$((${ROWS:-2400} / 10))
expect 0 '' "generates LRA's files" "$bin/cast_data" generate listops --out "$tmp/set" --tsv "$tmp/tsv" \
    --train $((rows - 2 * tenth)) --val $tenth --test $tenth
expect 0 "^$rows rows, 0 wrong; length [0-9.]*; nesting \[9\]\$" "their targets, worked out from the trees" \
    evaluate "$tmp/tsv"/basic_{train,val,test}.tsv
sed 's/^/# /' "$tmp/out"
awk 'NR == 3 { sub(/\t[0-9]/, "\t" (substr($0, index($0, "\t") + 1, 1) + 1) % 10) } { print }' \
    "$tmp/tsv/basic_val.tsv" >"$tmp/spoiled"
expect 1 'spoiled: row 2: target' "it sees a target that is wrong" evaluate "$tmp/spoiled"
if [ -r "$official" ]; then
    expect 0 '^100 rows, 0 wrong' "LRA's own rows" evaluate "$official"
else
    echo "ok - LRA's own rows # SKIP no samples/listops_official_100.tsv in \$CAST_DATA"
fi
