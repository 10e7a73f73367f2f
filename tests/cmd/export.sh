#!/bin/bash
# cast_export from the command line: what it writes opens as a checkpoint does, its card, and what is refused.
# tests/export/readers.sh is about the files in Python.
set -u
. tests/training.sh
make_data "$tmp/data" listops 40 9 23 60
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 2, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60, "norm": "batch",
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "eval_every": 5 } }
END
train() { "$bin/cast_train" "$tmp/tiny.json" --threads 1 "$@"; }
export=("$bin/cast_export")
has() { grep -qE -- "$2" "$1"; }
lacks() { [ -s "$1" ] && ! grep -qE -- "$2" "$1"; }
train --out "$tmp/run" >"$tmp/log" 2>&1
result $? "a run to export" "$tmp/log"
best=$(sed -n 's/^test accuracy of best (update \([0-9]*\)).*/\1/p' "$tmp/log")

expect 0 '^usage: cast_export' "help" "${export[@]}" --help
expect 0 '^cast_export [0-9]+\.[0-9]+\.[0-9]+$' "version" "${export[@]}" --version

# ---- weights ----

m=$tmp/new/place/m
expect 0 "^wrote +$m.safetensors\$" "exports a run's best, into a directory that it makes" "${export[@]}" "$tmp/run" --out "$m"
check "of that update" grep -qx "from     $tmp/run/best.safetensors, update $best" "$tmp/out"
check "without Python" test ! -e "${m}_numpy.py"
size() { wc -c <"$1"; }
check "less than half of a checkpoint" test $(($(size "$m.safetensors") * 2)) -lt "$(size "$tmp/run/best.safetensors")"
check "with the statistics of batch norm" has "$m.safetensors" '"last.bn.running_var"'
check "without the optimiser's" lacks "$m.safetensors" '"state\.'
"$bin/cast_eval" "$tmp/run" >"$tmp/want" 2>&1
mkdir "$tmp/away"
cp "$m.safetensors" "$tmp/away/w"
rm -r "$tmp/new"
expect 0 "^weights +$tmp/away/w, update $best\$" "cast_eval opens it by itself" "$bin/cast_eval" "$tmp/away/w"
tail=$(sed -n 's/^test accuracy of best (update [0-9]*): //p' "$tmp/want")
check "and measures what it did" has_line "test accuracy of weights (update $best): $tail"
expect 0 ' sizes|cluster' "cast_viz too" "$bin/cast_viz" "$tmp/away/w" --stats
expect 0 '^ +taken \([0-9]+\): tok, pos, blocks.0-1: norm1 attn norm2 fc1 fc2, last, fc1, fc2$' "train.init too" \
    train train.init="$tmp/away/w" --out "$tmp/x" --dry-run
check "of that update" grep -qx "init     $tmp/away/w, update $best" "$tmp/out"
"${export[@]}" "$tmp/run/best.safetensors" --out "$tmp/again.safetensors" >"$tmp/out" 2>&1
check "a checkpoint alone gives the same file, whose name may have its end" cmp "$tmp/again.safetensors" "$tmp/away/w"
"${export[@]}" "$tmp/again.safetensors" --out "$tmp/third" >"$tmp/out" 2>&1
check "so does what was exported" cmp "$tmp/third.safetensors" "$tmp/away/w"
expect 0 'last.safetensors, update 20$' "the last" "${export[@]}" "$tmp/run" --last --out "$tmp/last"
check "is another" bash -c "! cmp -s '$tmp/last.safetensors' '$tmp/away/w'"
cp -r "$tmp/run" "$tmp/spoilt"
cp "$tmp/away/w" "$tmp/spoilt/last.safetensors"
expect 65 'is not a checkpoint of this version' "no run goes on from it" train --out "$tmp/spoilt"

# ---- the card ----

expect 0 '' "a card" "${export[@]}" "$tmp/run" --out "$tmp/m" --python
card=$tmp/m.md
check "task" has "$card" '^\| task \| listops: the value of a nested expression'
check "data and hashes" has "$card" '^\| data \| .*data; hashes: train [0-9a-f]{8}, val [0-9a-f]{8}, test [0-9a-f]{8} \|$'
# shellcheck disable=SC2016
check "what ids are" has "$card" '^Ids, from 0: `<pad>` `\[MIN` '
check "model" has "$card" '^\| model \| depth 2, heads 2, d 16,.* norm batch,'
check "attention" has "$card" "^\\| attention's keys \\| clusters 4,"
check "which weights" has "$card" "^\\| weights \\| best, of update $best \\|\$"
check "how long" has "$card" '^\| training \| 20 updates, 2 epochs, [0-9.]+ s \|$'
cp -r "$tmp/run" "$tmp/slow"
sed -i 's/"seconds": [0-9.e-]*/"seconds": 8000/' "$tmp/slow/metrics.jsonl"
"${export[@]}" "$tmp/slow" --out "$tmp/slow-m" >"$tmp/out" 2>&1
of_report() { "$bin/cast_report" "$1" --format csv --columns "$2" 2>/dev/null | tail -n 1 | tr -d '\r'; }
took=$(of_report "$tmp/slow" hours | awk '{ printf "%dh %02dm", $1, 60 * ($1 - int($1)) }')
check "as cast_report has it" has "$tmp/slow-m.md" "^\\| training \\| .*, ${took:-none} \\|\$"
check "as many parameters too" has "$card" \
    "^\\| parameters \\| $(of_report "$tmp/run" parameters) values, and [0-9]+ running statistics, "
check "by what" has "$card" '^\| build \| (gcc|clang) '
if [ -e .git ] && git describe --always >"$tmp/out" 2>&1; then
    check "and commit" has "$card" '^\| commit \| [0-9a-f]{12}(-dirty)? \|$'
else
    echo "ok # SKIP commit: this is no repository, or git does not open it"
fi
check "accuracy in test" has "$card" "^\\| accuracy in test \\| ${tail/, 23 ex*/}, 23 examples \\|\$"
check "accuracy in validation" has "$card" '^\| accuracy in validation \| [0-9.]+ %, loss [0-9.]+, 9 examples \|$'
check "the command that trained it" has "$card" 'cast_train .*tiny.json --threads 1 --out .*run +# trained it$'
check "the one that evaluates it" has "$card" '^cast_eval m.safetensors '
check "Python" has "$card" '^from m_torch import load$'
check "no seeds of a run alone" lacks "$card" '^\| over seeds'
# shellcheck disable=SC2016
sed -n '/^```json$/,/^```$/p' "$card" | sed '1d;$d' >"$tmp/m.json"
check "its config" cmp "$tmp/m.json" "$tmp/run/config.json"
check "NumPy's reader" cmp "${card%.md}_numpy.py" src/export/model_numpy.py
check "PyTorch's reader" cmp "${card%.md}_torch.py" src/export/model_torch.py
expect 0 '' "to a name that is no word of Python's" "${export[@]}" "$tmp/run" --out "$tmp/2 short-m" --python
check "has commands for a shell" has "$tmp/2 short-m.md" "^cast_eval '2 short-m.safetensors' "
# shellcheck disable=SC2016
sed -n '/^```python$/,/^```$/p' "$tmp/2 short-m.md" | sed -n '/^from/p;/^Model =/p' >"$tmp/away/reads.py"
if python3 -c '' 2>/dev/null; then
    check "and lines that Python takes" python3 -m py_compile "$tmp/away/reads.py"
else
    echo "ok - # SKIP no python3: the lines are not compiled"
fi
expect 0 '' "to a name with a dot" "${export[@]}" "$tmp/run" --out "$tmp/m-v1.2" --python
# shellcheck disable=SC2016
sed -n '/^```python$/,/^```$/p' "$tmp/m-v1.2.md" | sed -n '/^from/,/^Model =/p; /^Model =/q' >"$tmp/reads.py"
if python3 -c 'import numpy' 2>/dev/null; then
    check "whose lines Python finds" bash -c "cd '$tmp' && python3 reads.py"
else
    echo "ok - # SKIP no NumPy: the lines are not run"
fi
check "a file alone has no figures" lacks "$tmp/third.md" '^\| (training|accuracy|over seeds)'
"$bin/cast_sweep" "$tmp/tiny.json" train.lr=5e-3,1e-3 train.steps=8 --seeds 1..3 --out "$tmp/sweep" --threads 1 >"$tmp/out" 2>&1
result $? "a sweep" "$tmp/out"
(cd "$tmp/sweep/lr=0.001,seed=2" && "$bin/cast_export" . --out "$tmp/s" >"$tmp/out" 2>&1)
result $? "exports a run of it, from within" "$tmp/out"
said=$("$bin/cast_report" "$tmp/sweep" 2>/dev/null | grep -F '| 0.001 ' | grep -oE '[0-9.]+ ± [0-9.]+' | sed -n 2p)
check "whose card has all seeds, as cast_report does" has "$tmp/s.md" "^\\| over seeds \\| $said % in test \\(mean.*\\), 3 of 3 runs finished \\|\$"
# One run is not tested, and one tested better with its last weights.
cp -r "$tmp/sweep" "$tmp/part"
sed -i '/"test"/d' "$tmp/part/lr=0.001,seed=3/metrics.jsonl"
sed -i 's/\("which": "last", "accuracy": \)[0-9.]*/\10.9/' "$tmp/part/lr=0.001,seed=1/metrics.jsonl"
expect 0 'last.safetensors' "exports the last of a run beside these" \
    "${export[@]}" "$tmp/part/lr=0.001,seed=2" --last --out "$tmp/p"
row=$("$bin/cast_report" "$tmp/part" 2>/dev/null | grep -F '| 0.001 ')
said=$(grep -oE '[0-9.]+ ± [0-9.]+' <<<"$row" | sed -n 3p)
check "whose card has what cast_report has of last weights" has "$tmp/p.md" \
    "^\\| over seeds \\| $said % in test \(mean.*\), $(grep -oE '[0-9] of [0-9]' <<<"$row") runs finished \\|\$"
make_data "$tmp/reviews" text 40 9 23 60
train task=text data.dir="$tmp/reviews" data.holdout=0 train.objective=masked --out "$tmp/masked" >"$tmp/log" 2>&1
result $? "masked training" "$tmp/log"
expect 0 '' "exports it" "${export[@]}" "$tmp/masked" --out "$tmp/guesses"
tail=$(sed -n 's/^test accuracy of best (update [0-9]*): //p' "$tmp/log")
check "with its objective" has "$tmp/guesses.md" '^\| objective \| masked: '
"$bin/cast_train" "$tmp/tiny.json" task=text data.dir="$tmp/reviews" data.holdout=0 --out "$tmp/chosen" >"$tmp/log" 2>&1
"${export[@]}" "$tmp/chosen" --out "$tmp/chosen-m" >"$tmp/log" 2>&1
chosen='^\| chosen by \| the test set, which validated \(data.holdout=0\) \|$'
check "weights that the test set chose are told" has "$tmp/chosen-m.md" "$chosen"
check "of masked training too" has "$tmp/guesses.md" "$chosen"
"${export[@]}" "$tmp/chosen" --last --out "$tmp/last-m" >"$tmp/log" 2>&1
check "no last ones" lacks "$tmp/last-m.md" "$chosen"
"$bin/cast_train" "$tmp/tiny.json" task=text data.dir="$tmp/reviews" --out "$tmp/held" >"$tmp/log" 2>&1
"${export[@]}" "$tmp/held" --out "$tmp/held-m" >"$tmp/log" 2>&1
check "nor those that held out reviews chose" lacks "$tmp/held-m.md" "$chosen"
begun() { train task=text data.dir="$tmp/reviews" data.holdout=0 train.init="$tmp/masked/last.safetensors" --out "$tmp/begun" "$@"; }
begun --stop-at 7 >"$tmp/log" 2>&1 && begun >>"$tmp/log" 2>&1
result $? "the task from there, in two goes" "$tmp/log"
expect 0 '' "exports it" "${export[@]}" "$tmp/begun" --out "$tmp/b"
check "with where it began" has "$tmp/b.md" \
    "^\\| first weights \\| $tmp/masked/last.safetensors, update 20, of masked training \\|\$"
check "by a command that trains all of it" lacks "$tmp/b.md" '--stop-at'
check "which it needs" has "$tmp/b.md" 'trains it anew, from its first weights, which are to be trained before$'
expect 0 '' "exports a checkpoint of it alone" "${export[@]}" "$tmp/b.safetensors" --out "$tmp/c"
check "which needs them as well" has "$tmp/c.md" 'trains it anew, from its first weights, which are to be trained before$'
check "and names them" has "$tmp/c.md" "^\\| first weights \\| $tmp/masked/last.safetensors \\|\$"
# shellcheck disable=SC2016
sed -n '/^## Config of the first weights$/,$p' "$tmp/b.md" | sed '1,3d;$d' >"$tmp/b.json"
check "and their config" cmp "$tmp/b.json" "$tmp/masked/config.json"
check "which others have not" lacks "$card" 'first weights'
check "and its loss, in bits" has "$tmp/guesses.md" "^\\| accuracy in test \\| .* bits a token, 23 examples \\|\$"
check "as training had it" grep -qF "${tail:-none}" "$tmp/guesses.md"
expect 0 '^ +new \(4\): fc1, fc2$' "from which a classifier begins" \
    train task=text data.dir="$tmp/reviews" data.holdout=0 train.init="$tmp/guesses.safetensors" --out "$tmp/x" --dry-run
check "without what guesses" grep -qE '^ +left \(3\): lm.bias, lm.weight, mask.weight$' "$tmp/out"

# ---- what is refused ----

expect 78 "no classifier: there is no tensor 'fc2.weight'" "a reader of what guesses" \
    "${export[@]}" "$tmp/masked" --out "$tmp/y" --python

expect 64 'no RUN or CHECKPOINT' "nothing to export" "${export[@]}" --out "$tmp/x"
expect 64 '--out NAME is needed' "no NAME" "${export[@]}" "$tmp/run"
expect 64 "no 'too' behind it" "two words" "${export[@]}" "$tmp/run" too --out "$tmp/x"
expect 64 "is no NAME" "a directory" "${export[@]}" "$tmp/run" --out "$tmp/"
expect 64 'no run' "--last of a checkpoint" "${export[@]}" "$tmp/run/best.safetensors" --last --out "$tmp/x"
expect 64 'is what is to be exported' "over itself" "${export[@]}" "$tmp/third.safetensors" --out "$tmp/third"
expect 66 'nowhere' "a place that is not there" "${export[@]}" "$tmp/nowhere" --out "$tmp/x"
expect 65 'is not a checkpoint' "data" "${export[@]}" "$tmp/data/test.safetensors" --out "$tmp/x"
head -c 3000 "$tmp/away/w" >"$tmp/torn"
expect 65 'torn' "what breaks off" "${export[@]}" "$tmp/torn" --out "$tmp/x"
unsealed='s/header_crc32/header_other/' # what is edited here has no sum
sed "$unsealed"';s/"update":"[0-9]/"update":"x/' "$tmp/away/w" >"$tmp/torn"
expect 65 "\"update\" is 'x" "an update that is none" "${export[@]}" "$tmp/torn" --out "$tmp/x"
cp "$tmp/away/w" "$tmp/torn"
printf 'X' | dd of="$tmp/torn" bs=1 conv=notrunc seek=$(($(size "$tmp/torn") - 99)) 2>/dev/null
expect 65 'torn: is damaged' "a byte changed" "$bin/cast_eval" "$tmp/torn"
expect 73 'best.safetensors: is there and is no file of exported weights' "over a checkpoint" \
    "${export[@]}" "$tmp/run" --last --out "$tmp/run/best"
echo "# notes" >"$tmp/notes.md"
expect 73 'notes.md: is there and is no card' "over a page of the user's" "${export[@]}" "$tmp/run" --out "$tmp/notes"
check "before anything is written" test ! -e "$tmp/notes.safetensors"
echo "print()" >"$tmp/own_torch.py"
expect 73 'own_torch.py: is there and is no reader' "over a program of the user's" "${export[@]}" "$tmp/run" --out "$tmp/own" --python
check "before anything is written" test ! -e "$tmp/own.safetensors"
expect 0 '' "but not without --python" "${export[@]}" "$tmp/run" --out "$tmp/own"
sed "$unsealed"';s/"type\\":\\"cast/"type\\":\\"kast/' "$tmp/run/best.safetensors" >"$tmp/other"
expect 78 'no reader in Python of kast attention, but of cast, full and naive' "another mechanism" \
    "${export[@]}" "$tmp/other" --out "$tmp/x" --python
check "of which nothing is written" test ! -e "$tmp/x.safetensors"
expect 0 '' "but its weights may be" "${export[@]}" "$tmp/other" --out "$tmp/x"
for name in . .. exp/..; do
    expect 64 "^cast_export: --out: '$name' is no NAME" "to $name" "${export[@]}" "$tmp/run" --out "$name"
done
cp "$tmp/run/best.safetensors" "$tmp/wild.safetensors"
edit "$tmp/wild.safetensors" tok.weight '\x00\x00\xc0\x7f\x00\x00\xf8\x7f' 8
expect 70 "wild.safetensors: parameter 'tok.weight': [12] of its [0-9]+ values .* not finite" "weights that are not numbers" \
    "${export[@]}" "$tmp/wild.safetensors" --out "$tmp/x"
