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

# ---- other rules ----

small=("$bin/cast_data" generate listops --out "$tmp/small" --train 50 --val 5 --test 5)
expect 0 '' "small expressions" "${small[@]}" --depth 3 --length 16..128 --ops MIN,MAX --tsv "$tmp/smaller"
expect 0 '^60 rows, 0 wrong; length [0-9.]*; nesting \[[123, ]*\]$' "their targets" evaluate "$tmp/smaller"/basic_{train,val,test}.tsv
check "of these operators alone" grep -qE 'MED 0.00 \[SM 0.00 %' "$tmp/out"
expect 0 'every label' "verified" "$bin/cast_data" verify "$tmp/small"
# What quickstart.sh makes is what it then takes for its own.
quick=$(sed -n "s/^source='\(.*\)'\$/\1/p" scripts/quickstart.sh)
options=$(sed -n 's/.*cast_data generate listops \(--depth.*--args [0-9.]*\) --train.*/\1/p' scripts/quickstart.sh)
# shellcheck disable=SC2086 # words
"$bin/cast_data" generate listops $options --train 8 --val 2 --test 2 --out "$tmp/quick" >"$tmp/log" 2>&1
expect 0 "^  source   ${quick:-none}\$" "quickstart's set has the name that it asks for" "$bin/cast_data" show "$tmp/quick"
expect 0 'depth 3, 16 to 128 tokens, MIN MAX of 2 to 10 arguments, seed 1' "the set says what it is" \
    "$bin/cast_data" show "$tmp/small"
"${small[@]}" >/dev/null 2>&1 && mv "$tmp/small" "$tmp/lra"
"${small[@]}" --depth 9 --length 501..1999 --ops SM,MED,MIN,MAX --args 2..10 >/dev/null 2>&1
check "the benchmark's own rules in words" cmp "$tmp/small/train.safetensors" "$tmp/lra/train.safetensors"
expect 64 'only [0-9]* different ones of depth 1' "more than there are" \
    "${small[@]}" --depth 1 --length 1..4 --args 2..2 --ops MIN --train 5000
expect 64 'no expression is like that' "longer than any" "${small[@]}" --depth 1 --length 16..20 --args 2..10
expect 64 "'MEAN' is none of" "an operator that is none" "${small[@]}" --ops MIN,MEAN
expect 64 'expected A..B' "a length that is no range" "${small[@]}" --length 16
expect 64 'smaller one comes first' "a range the wrong way round" "${small[@]}" --length 128..16
expect 64 'from 1 to 9' "more depth than evaluators take" "${small[@]}" --depth 10

# ---- what outermost levels tell ----

if python3 -c 'import numpy' 2>/dev/null; then
    python3 - "$tmp/set" >"$tmp/right.csv" <<'END'
import sys
sys.path.insert(0, "scripts")
import prepared
labels = prepared.read(sys.argv[1], "val", "listops")[1]
print("index,label,predicted", *(f"{i},{label},{label}" for i, label in enumerate(labels)), sep="\n")
END
    expect 0 '^the outermost operator +[23][0-9]\.[0-9] ' "the outermost operator tells something" \
        scripts/levels.py "$tmp/set" 9 --predicted "$tmp/right.csv"
    sed 's/^/# /' "$tmp/out"
    all='( +100\.0){5}$'
    check "all levels everything" grep -Eq "^and 9 levels of arguments$all" "$tmp/out"
    check "and so does who guesses right" grep -Eq "^predicted$all" "$tmp/out"
    expect 1 'right.csv: .*its labels are others' "guesses of another split" \
        scripts/levels.py "$tmp/set" 0 --split test --predicted "$tmp/right.csv"
    expect 1 'README.md: expected what cast_eval' "no guesses" scripts/levels.py "$tmp/set" --predicted README.md
    expect 2 "invalid count value: '-1'" "fewer levels than none" scripts/levels.py "$tmp/set" -- -1
    expect 1 'nowhere/train.safetensors: No such file' "no set" scripts/levels.py "$tmp/nowhere"
    mkdir "$tmp/torn" && head -c 100 "$tmp/set/train.safetensors" >"$tmp/torn/train.safetensors"
    expect 1 'torn/train.safetensors: expected a prepared set' "a torn one" scripts/levels.py "$tmp/torn"
else
    echo "ok - what outermost levels tell # SKIP no numpy"
fi
