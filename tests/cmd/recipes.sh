#!/bin/bash
# scripts/reproduce.sh with recipes: what it makes, what it leaves alone, and what stops it.
set -u
. tests/training.sh
make_data "$tmp/data" listops 60 9 11 60
root=$tmp/root
mkdir -p "$root/configs"
cp -r scripts "$root"
for program in "$bin"/cast_*; do ln -s "$program" "$root"; done
cat >"$root/configs/listops.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60, "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 1e-2 } }
END
cat >>"$root/scripts/recipes.sh" <<'END'
of_best() {
    echo "listops 1 17 train.seed=1"
    echo "text 1 9 train.seed=1"
    echo "listops masked-1 9 masked=6 train.seed=1"
    echo "listops easy-1 9 easy=6 train.seed=1"
    echo "listops graded-1 9 easy=6 intermediate=3 train.seed=1"
}
easier() {
    case $2 in easy) echo --length 10..20 ;; *) echo --length 21..40 ;; esac
    echo --depth 3 --train 40 --val 10 --test 10
}
searched() {
    echo "listops short 9 train.lr=2e-3"
    echo "listops seldom 9 train.eval_every=6"
    echo "listops given 9 train.init=given.safetensors"
}
END
reproduce=("$root/scripts/reproduce.sh")
runs=$root/runs/best
validations() { grep -o '"val", "step": [0-9]*' "$1/metrics.jsonl" | grep -o '[0-9]*$' | tr '\n' ' '; }
file_list() { (cd "$root/runs" && find "$@" -type f | sort | xargs sha256sum); }

expect 64 "^reproduce.sh: no rows of 'bogus'; there are of listops text, or one by one listops-1 text-1 " "a task that is not there" "${reproduce[@]}" best listops bogus
expect 64 "^reproduce.sh: MINUTES must be a number above 0, got '0'$" "no minutes" "${reproduce[@]}" first 0
expect 64 "^reproduce.sh: no experiment 'clusters 3'; --help" "an argument too many" "${reproduce[@]}" clusters 3
check "nothing is begun" test ! -e "$root/runs"
expect 1 '^\| listops-1 .*' "a row that fails" "${reproduce[@]}" best
check "is told" grep -q 'configs/text.json' "$tmp/out"
check "does not hold up the next" grep -q '"test"' "$runs/listops-masked-1/metrics.jsonl"
check "eight parts, a validation each" test "$(validations "$runs/listops-1")" = "3 6 9 12 15 17 "
check "the task after masked training" grep -q '"init": *"runs/best/listops-masked-1-masked/last.safetensors"' \
    "$runs/listops-masked-1/config.json"
check "for its own updates" test "$(validations "$runs/listops-masked-1")" = "2 4 6 8 9 "
check "which is validated four times, not tested" test "$(validations "$runs/listops-masked-1-masked")" = "2 4 6 "
check "at all" bash -c "! grep -q '\"test\"' '$runs/listops-masked-1-masked/metrics.jsonl'"
check "or after easy training" grep -q '"init": *"runs/best/listops-easy-1-easy/last.safetensors"' "$runs/listops-easy-1/config.json"
check "on data of its own" grep -q '"dir": *"data/listops-easy"' "$runs/listops-easy-1-easy/config.json"
expect 0 'source .* 10 to 20 tokens' "which are made" "$bin/cast_data" show "$root/data/listops-easy"
check "or after easy and then intermediate training" grep -q '"init": *"runs/best/listops-graded-1-intermediate/last' \
    "$runs/listops-graded-1/config.json"
check "which begins with the easy one's weights" grep -q '"init": *"runs/best/listops-graded-1-easy/last' \
    "$runs/listops-graded-1-intermediate/config.json"
expect 0 'source .* 21 to 40 tokens' "each on data of its own" "$bin/cast_data" show "$root/data/listops-intermediate"
check "and no other" grep -q "\"dir\": *\"$tmp/data\"" "$runs/listops-easy-1/config.json"

file_list best >"$tmp/before"
expect 0 '^runs/best/listops-1: finished$' "of one task, the same again" "${reproduce[@]}" best listops
check "changes nothing" diff "$tmp/before" <(file_list best)
expect 0 '^runs/best/listops-easy-1: finished$' "one run by its name" "${reproduce[@]}" best listops-easy-1
check "and no other" test "$(grep -c finished$ "$tmp/out")" = 1
sed -i 's/listops 1 17/listops 1 19/' "$root/scripts/recipes.sh"
expect 0 'resuming at update 17' "a row that is longer now" "${reproduce[@]}" best listops
check "goes on" grep -q '"val", "step": 19,' "$runs/listops-1/metrics.jsonl"
sed -i 's/listops 1 19/listops 1 17/' "$root/scripts/recipes.sh"
rm -r "$runs/listops-1"
"${reproduce[@]}" best listops >/dev/null 2>&1
sed -i '/"which": "best"/d' "$runs/listops-1/metrics.jsonl"
expect 0 'resuming at update 17' "but tests what is not tested" "${reproduce[@]}" best listops
check "and writes it" grep -q '"which": "best"' "$runs/listops-1/metrics.jsonl"
cp "$runs/listops-1/best.safetensors" "$root/given.safetensors"
expect 0 'not tested' "the search validates alone" "${reproduce[@]}" search listops
check "from weights that are no run's, too" test "$(validations "$root/runs/best-search/listops-given")" = "2 4 6 8 9 "
check "in its own directory" test "$(validations "$root/runs/best-search/listops-short")" = "2 4 6 8 9 "
check "as often as a row says" test "$(validations "$root/runs/best-search/listops-seldom")" = "6 9 "

rm -r "$root/runs" "$root/cast_train"
printf '#!/bin/sh\necho stopped | tee -a tried\nexit 75\n' >"$root/cast_train"
chmod +x "$root/cast_train"
expect 75 'stopped' "a run that is stopped stops them" "${reproduce[@]}" best listops
check "at once" test "$(wc -l <"$root/tried")" = 1

cat >"$root/cast_train" <<'END'
#!/bin/sh
echo "$*" >>tried
kill -KILL $$
END
rm "$root/tried"
expect 66 'masked-1: left out, runs/best/listops-masked-1-masked is not trained to its end' \
    "masked training that is killed" "${reproduce[@]}" best listops
check "is not begun with, by another stage neither" test "$(wc -l <"$root/tried")" = 4

rm "$root/cast_sweep" "$root/tried"
cat >"$root/cast_sweep" <<'END'
#!/bin/sh
echo "$1" | tee -a tried
exit 66
END
chmod +x "$root/cast_sweep"
expect 1 'configs/listops.json' "sweeps that lack their data" "${reproduce[@]}" first 1 text listops
check "are all tried" test "$(wc -l <"$root/tried")" = 3
sed -i 's/exit 66/exit 75/' "$root/cast_sweep"
expect 75 'configs/text.json' "one that is stopped" "${reproduce[@]}" first 1 text listops
check "is the last" test "$(wc -l <"$root/tried")" = 4

printf '#!/bin/sh\ntrap "touch ended; exit 75" TERM\ntouch begun\nwhile :; do sleep 0.1; done\n' >"$root/cast_train"
"${reproduce[@]}" best listops &
script=$!
while [ ! -e "$root/begun" ] && kill -0 $script; do sleep 0.1; done
kill $script
wait $script
check "a signal to the script alone stops it" test $? = 75
check "and the run" test -e "$root/ended"

# 2 updates/s are 1,800 in a quarter of an hour; of 4 samples/s each takes 1/4 s.
rm "$root"/cast_*
for program in bench train eval report; do
    printf '#!/bin/sh\necho "%s $*" >>ran\n' $program >"$root/cast_$program"
    chmod +x "$root/cast_$program"
done
echo "echo '{\"updates_per_s\": 2,\"samples_per_s\": 4,\"peak\": 8}'" >>"$root/cast_bench"
echo "echo '{\"accuracy\": 0.5}'" >>"$root/cast_eval"
check "all attentions in the same time" "${reproduce[@]}" budget 0.5
check "which is half of a quarter of an hour" test "$(grep -c '^train .* --stop-at 900 ' "$root/ran")" = 22
check "beside what a sample takes" test \
    "$(cat "$root"/runs/budget-0.5/{image,text}.jsonl | grep -cxF '{"seconds": 0.25, "accuracy": 0.5}')" = 22

expect 64 "no experiment 'worst'" "anything else" "${reproduce[@]}" worst
expect 0 'reproduce.sh best \[TASK' "help" "${reproduce[@]}" --help
