#!/bin/bash
# cast_train from outside: what it leaves behind, what it says of bad input, and that nothing stops it for good.
set -u
. tests/training.sh
make_data "$tmp/data" listops 40 9 9 60
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "log_every": 5 } }
END
# Long enough to be interrupted.
sed 's/"steps": 20/"steps": 2000, "eval_every": 100, "save_minutes": 0.01/' "$tmp/tiny.json" >"$tmp/long.json"
train=("$bin/cast_train" "$tmp/tiny.json")
# On one thread: with so little to do for each, more are slower where others are at work.
long=("$bin/cast_train" "$tmp/long.json" --threads 1)

# ---- what it prints and leaves ----

expect 0 'train\.eval_every' "help tells the keys" "$bin/cast_train" --help keys
expect 0 '^attention +cast full naive' "and what there is" "$bin/cast_train" --help
check "on one screen" test "$(wc -l <"$tmp/out")" -le 50
expect 0 '^cast_train [0-9.]+$' "version" "$bin/cast_train" --version
decays() { # decays NAME FLAGS KEY=VALUE...
    local name=$1 flags=$2
    shift 2
    expect 0 "^ *$name +\[[0-9,]*\] +[0-9]+ +$flags\$" "$name: $flags" "${train[@]}" --out "$tmp/dry" --dry-run "$@"
}
decays blocks.0.attn.q.weight 'trained, decayed'
decays blocks.0.attn.q.bias trained
decays blocks.0.attn.phi.weight 'trained, decayed'
decays blocks.0.attn.surrogate trained
decays blocks.0.attn.surrogate 'not trained' model.attention.surrogates=frozen
decays blocks.0.attn.projection 'trained, decayed' model.attention.type=linformer
decays blocks.0.attn.conv 'trained, decayed' model.attention.type=nystrom
decays blocks.0.conv.weight 'trained, decayed' model.conv=3
decays blocks.0.norm1.g trained model.norm=scale
decays blocks.0.norm1.bn.weight trained model.norm=batch
decays blocks.0.fc1.weight 'trained, decayed'
decays tok.weight trained
decays pos.weight trained
decays cls.weight trained model.pooling=cls
decays lm.weight 'trained, decayed' train.objective=masked
decays mask.weight trained train.objective=masked
expect 0 'model +full attention' "another mechanism, without the keys of the config's" \
    "${train[@]}" --out "$tmp/dry" --dry-run model.attention.type=full
expect 78 "key 'model.attention.clusters' is unknown to full; those that have it: cast, clustered, i-clustered \(got 2; the keys here are type" "but not with keys that it has not" \
    "${train[@]}" --out "$tmp/dry" --dry-run model.attention.clusters=2 model.attention.type=full
check "on standard output" bash -c "'$bin/cast_train' '$tmp/tiny.json' --dry-run 2>/dev/null | grep -q '^ *in all'"
"${train[@]}" --out "$tmp/dry" --dry-run --json >"$tmp/outline.json" 2>"$tmp/said"
check "or as JSON there" test "$(head -c 1 "$tmp/outline.json")" = "{"
for key in '"version": "[0-9.]+"' '"update": 0,' '"trained": [0-9]+' '"name": "blocks.0.attn.q.weight"' '"planned_bytes": [0-9]+' \
    '"train": 40,' '"updates": 20,' '"gflop_update": [0-9.e-]+' '"peak_gflops": [0-9]' '"task": "listops"'; do
    check "with $key" grep -qE "$key" "$tmp/outline.json"
done
expect 0 '^changed +train.lr=0.01 model.conv=3$' "keys that are set are told" "${train[@]}" train.lr=0.01 model.conv=3 \
    --out "$tmp/dry" --dry-run --no-test
check "nothing was to be tested" test "$(grep -c 'not tested' "$tmp/out")" = 0
expect 73 'tiny.json: is no directory' "a run in a file" "${train[@]}" --out "$tmp/tiny.json"
expect 64 'json is of --dry-run' "which a run does not print" "${train[@]}" --out "$tmp/dry" --json
check "a dry run touches nothing" test ! -e "$tmp/dry"
planned() { # planned BATCH KEY=VALUE...
    "${train[@]}" train.lanes=2 model.d=64 model.d_ff=256 model.depth=4 train.batch="$1" "${@:2}" --threads 1 --out "$tmp/dry" \
        --dry-run --json 2>/dev/null | sed -nE 's/^ *"planned_bytes": ([0-9]+),?$/\1/p'
}
more() { # more KEY=VALUE...: bytes that a batch of 40 takes more than one of 4; none where one of them is not told
    local large small
    large=$(planned 40 "$@") small=$(planned 4 "$@")
    [ -z "$large" ] || [ -z "$small" ] || echo $((large - small))
}
check "memory is that of an example, whatever the batch" test "$(more)" -lt 100000
check "with batch norm that of all" test "$(more model.norm=batch)" -gt 500000
expect 0 'test accuracy of best' "trains and tests" "${train[@]}" --out "$tmp/whole"
cp "$tmp/out" "$tmp/whole-log"
whole=$(hash_of "$tmp/whole")

# ---- smoke runs ----

mkdir "$tmp/smoke"
smoke() { (cd "$tmp/smoke" && "$bin/cast_train" "$@"); }
cat >"$tmp/words.json" <<END
{ "task": "retrieval", "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60 } }
END
expect 0 '^test accuracy of best .* 8 examples$' "a smoke run of what is not there" smoke "$tmp/words.json" --fast
check "in a directory of its own" test -e "$tmp/smoke/runs/words-fast/metrics.jsonl"
expect 0 'random tokens, for cast_train --fast' "on random tokens" "$bin/cast_data" show "$tmp/smoke/data/retrieval-fast-60"
rm "$tmp/smoke/data/retrieval-fast-60/train.safetensors"
expect 0 '^test accuracy of best .* 8 examples$' "which it makes again where a split is missing" smoke "$tmp/words.json" --fast
expect 0 '^run +runs/words-fast, from the start' "which begins anew each time" smoke "$tmp/words.json" --fast
expect 0 'lengths +150 tokens' "of other lengths too" smoke "$tmp/words.json" --fast model.max_length=75 --out runs/longer-fast
expect 0 '^in runs/words-fast' "stopped" smoke "$tmp/words.json" --fast --stop-at 2
check "it does not go on" test "$(grep -c 'to go on' "$tmp/out")" = 0
expect 66 'smoke run .* is no result; left out' "and is no result" "$bin/cast_report" "$tmp/smoke/runs/words-fast"
expect 73 'is of a smoke run' "nor what a run goes on from" smoke "$tmp/words.json" --out runs/words-fast
mv "$tmp/smoke/runs/words-fast/env.json" "$tmp/env.json"
expect 73 'is no smoke run' "nor one that nothing tells of, itself" smoke "$tmp/words.json" --fast
mv "$tmp/env.json" "$tmp/smoke/runs/words-fast"
expect 0 '^test accuracy' "of generated data, with a key set" smoke "$tmp/tiny.json" --fast train.steps=2
check "by the task's rules" grep -q 'LRA' "$tmp/smoke/data/listops-fast/train.safetensors"
"${train[@]}" train.seed=9 --no-test --out "$tmp/own" >/dev/null 2>&1
expect 73 'is no smoke run' "a run stays as it is" "${train[@]}" --fast --out "$tmp/own"
check "with its checkpoint" test -e "$tmp/own/last.safetensors"
expect 64 'exclude each other' "touching nothing" smoke "$tmp/words.json" --fast --dry-run
expect 66 'elsewhere: has no data, and --fast makes .* in data/retrieval-fast-60 alone' "of data where a task's could be" \
    smoke "$tmp/words.json" --fast data.dir=elsewhere
check "makes none there" test ! -e "$tmp/smoke/elsewhere"
(cd "$tmp/smoke" && exec "$bin/cast_train" "$tmp/words.json" --fast train.steps=1000000 --out at-work) >"$tmp/log" 2>&1 &
for ((i = 0; i < 200; i++)); do
    [ -s "$tmp/smoke/at-work/metrics.jsonl" ] && break
    sleep 0.1
done
expect 73 'at-work: is in use' "beside one that is at work" smoke "$tmp/words.json" --fast --out at-work
check "leaves that its files" test -s "$tmp/smoke/at-work/metrics.jsonl"
kill -KILL $! && wait $! 2>/dev/null

# ---- a config on another ----

sed 's/5e-3/1e-4/' "$tmp/tiny.json" >"$tmp/base.json"
echo '{ "base": "base.json", "train": { "lr": 5e-3 }, "model": { "attention": { "mechanism": "sa_topk" } } }' >"$tmp/own.json"
"$bin/cast_train" "$tmp/own.json" --out "$tmp/based" >/dev/null 2>&1
"${train[@]}" model.attention.mechanism=sa_topk --out "$tmp/unbased" >/dev/null 2>&1
check "a base and what differs" cmp "$tmp/based/config.json" "$tmp/unbased/config.json"
echo '{ "base": "base.json", "model": { "attention": { "type": "full" } } }' >"$tmp/full.json"
expect 0 'model +full attention' "another mechanism, without the base's keys" \
    "$bin/cast_train" "$tmp/full.json" --dry-run --out "$tmp/dry"
echo '{ "base": "around.json" }' >"$tmp/around.json"
expect 78 "more than 8 configs on each other" "a base that is itself" "$bin/cast_train" "$tmp/around.json" --dry-run
echo '{ "base": "bsae.json" }' >"$tmp/wrong.json"
expect 66 "bsae.json: cannot be read.*did you mean '$tmp/base.json'" "a base that is not there" \
    "$bin/cast_train" "$tmp/wrong.json" --dry-run
echo '{ "base": 3 }' >"$tmp/wrong.json"
expect 78 "key 'base' must be the path" "a base that is none" "$bin/cast_train" "$tmp/wrong.json" --dry-run
expect 0 'in all +674062' "a shipped config, from anywhere" smoke listops --dry-run
expect 0 'in all +674062' "by its file's name" smoke listops_sa.json --dry-run

# By its directory's name, moved; its config there is as good.
"${train[@]}" --out "$tmp/moves" --stop-at 7 >"$tmp/log" 2>&1
mv "$tmp/moves" "$tmp/moved"
expect 0 'resuming at update 7$' "a run that was moved, by its name" "$bin/cast_train" "$tmp/moved/" --stop-at 9
expect 0 'resuming at update 9$' "by its config" "$bin/cast_train" "$tmp/moved/config.json" --threads 1
check "has the bits of one that was not" test "$(hash_of "$tmp/moved")" = "$whole"
expect 0 'from the start' "its config for another run" "$bin/cast_train" "$tmp/moved" train.steps=3 --out "$tmp/others"
expect 66 "is a directory, but not a run.s: it has no config.json; one of those in it is meant: $tmp/[a-z]*, $tmp/[a-z]*, $tmp/[a-z]*, \.\.\.$" \
    "a directory of runs" "$bin/cast_train" "$tmp"
mkdir "$tmp/empty"
expect 66 'empty: is a directory, but not a run.s: it has no config.json$' "and of none" "$bin/cast_train" "$tmp/empty"
rm "$tmp/moved/env.json"
expect 0 'nothing is left to train' "by its config from there, whose env.json is lost" \
    bash -c "cd '$tmp/moved' && exec '$bin/cast_train' config.json"

limited=("${train[@]}" train.eval_limit=5 --out "$tmp/limited")
expect 0 '^not tested, as --no-test has it' "without a test" "${limited[@]}" --no-test
check "learns from all" grep -q ' 40 train, 5 val, 5 test examples' "$tmp/out"
check "of which metrics say nothing" test "$(grep -c '"kind": "test"' "$tmp/limited/metrics.jsonl")" = 0
expect 0 'not finished: 1 of 1|0 of 1' "and which reports do not take for finished" "$bin/cast_report" "$tmp/limited"
expect 0 '^test accuracy of best .*, 5 examples$' "that comes later, of the first examples" "${limited[@]}"
check "as many validate" grep -q '"kind": "val".*"count": 5,' "$tmp/limited/metrics.jsonl"
expect 0 '^as cast_train measured it$' "cast_eval looks at as many" "$bin/cast_eval" "$tmp/limited" --limit 5
expect 0 'of training' "a finished run that is not to be tested" "${limited[@]}" --no-test
expect 0 '1 of 1' "stays finished" "$bin/cast_report" "$tmp/limited"
expect 78 'train.eval_limit \(5, now 0\)' "a best of five is none of all" "${train[@]}" --out "$tmp/limited"
expect 0 ' 9 examples$' "or at all" "$bin/cast_eval" "$tmp/limited"
check "which is no other measurement" test "$(grep -c measured "$tmp/out")" = 0
expect 0 '^warning: train.warmup is 20, and training ends at update 20' "a warm-up that does not end" \
    "${train[@]}" --dry-run train.warmup=20
check "the resolved config is kept" grep -q '"warmup"' "$tmp/whole/config.json"
check "the environment is kept" grep -q '"blas".*OpenBLAS' "$tmp/whole/env.json"
check "four lines of training" test "$(grep -c '"kind": "train".*"peak_share"' "$tmp/whole/metrics.jsonl")" = 4
check "two lines of validation" test "$(grep -c '"kind": "val".*"count": 9' "$tmp/whole/metrics.jsonl")" = 2
check "tests of last and best" test "$(grep -cE '"which": "(last|best)"' "$tmp/whole/metrics.jsonl")" = 2
check "which are written last" test -z "$(find "$tmp/whole" -type f -newer "$tmp/whole/metrics.jsonl")"
check "a new run begins without a mark" test "$(grep -c '"resume"' "$tmp/whole/metrics.jsonl")" = 0
check "no terminal codes in a log" test -z "$(tr -d '[:print:]\n±' <"$tmp/whole-log")"
cp -r "$tmp/whole" "$tmp/again"
expect 0 'resuming at update 20' "a finished run tests again" "${train[@]}" --out "$tmp/again"
check "and is as it was" test "$(hash_of "$tmp/again")" = "$whole"
check "with its history, and the tests of the second call" \
    test "$(grep -c '"kind": "train"' "$tmp/again/metrics.jsonl") $(grep -c '"which"' "$tmp/again/metrics.jsonl")" = "4 4"

cp "$tmp/again/config.json" "$tmp/config.json"
expect 78 "$tmp/again has had 20 updates, more than the 19 that it is asked for" "by a dry run, too" \
    "${train[@]}" train.steps=19 --out "$tmp/again" --dry-run
expect 78 "$tmp/again has had 20 updates, more than the 19 that it is asked for" "fewer updates than it had" \
    "${train[@]}" train.steps=19 --out "$tmp/again"
truncate -s 100 "$tmp/again/last.safetensors"
expect 65 'To start anew, remove the run' "more, where the checkpoint is damaged" "${train[@]}" train.steps=30 --out "$tmp/again"
check "leave the run what it was" diff "$tmp/config.json" "$tmp/again/config.json"
rm "$tmp/again/last.safetensors"
expect 78 'holds a run of another config: train.lr' "other numbers, beside the metrics of these" \
    "${train[@]}" train.lr=1 --out "$tmp/again"
rm -f "$tmp/again/best.safetensors"
cp "$tmp/again/metrics.jsonl" "$tmp/metrics"
expect 73 "again/metrics.jsonl tells of 20 updates and a save: a run from the start would take their place" "metrics alone are kept" \
    "${train[@]}" --out "$tmp/again"
check "as they are" diff "$tmp/metrics" "$tmp/again/metrics.jsonl"
left() { # left NAME SED: a run of these metrics alone
    mkdir "$tmp/$1"
    cp "$tmp/whole"/{config,env}.json "$tmp/$1"
    sed "$2" "$tmp/whole/metrics.jsonl" >"$tmp/$1/metrics.jsonl"
}
left first '/"save", "step": 10/q'
left behind '/"train", "step": 15/q'
left unmarked '/"save"/d; /"val", "step": 20/d'
expect 73 'tells of 15 updates and a save' "those of anything behind a save" "${train[@]}" --out "$tmp/behind"
expect 73 'tells of 20 updates and a save' "and of tests" "${train[@]}" --out "$tmp/unmarked"
expect 0 'from the start' "but not of a save that may have been cut off" "${train[@]}" --out "$tmp/first" --stop-at 3
"${train[@]}" --stop-at 7 --out "$tmp/twice" >"$tmp/log" 2>&1
"${train[@]}" --stop-at 8 --out "$tmp/twice" >"$tmp/log" 2>&1
rm "$tmp/twice/last.safetensors"
expect 73 'tells of 8 updates and a save' "or of none, where it went on once" "${train[@]}" --out "$tmp/twice" --dry-run
sed -i '/"kind": "train", "step": 5,/!d' "$tmp/again/metrics.jsonl"
expect 0 'from the start' "those of a run that had saved nothing are begun anew" "${train[@]}" --out "$tmp/again" --stop-at 3
check "it says so" grep -q '^{"kind": "resume", "step": 0, ' "$tmp/again/metrics.jsonl"
expect 0 ' 0 of 1 ' "and is not done" "$bin/cast_report" "$tmp/again"

# With next to no steps the first validation is the best. A newer one is what a process leaves that was killed before
# it saved its state.
still=("${train[@]}" train.lr=1e-30)
expect 0 'test accuracy of best .update 10.' "a best of the first validation" "${still[@]}" --out "$tmp/still"
"${still[@]}" --stop-at 11 --out "$tmp/newer" >"$tmp/out" 2>&1
cp "$tmp/newer/last.safetensors" "$tmp/still/best.safetensors"
expect 0 'test accuracy of best .update 11.' "another is told by its own update" "${still[@]}" --out "$tmp/still"
check "to the end" grep -q 'best.safetensors .update 11.' "$tmp/out"

# ---- stopping and going on ----

expect 0 "^to go on: .*cast_train $tmp/tiny.json --out '$tmp/it'\\\\''s here'$" "--stop-at tells how to go on" \
    "${train[@]}" --stop-at 7 --out "$tmp/it's here"
bash -c "$(sed -n 's/^to go on: //p' "$tmp/out")" >"$tmp/log" 2>&1
[ "$(hash_of "$tmp/it's here")" = "$whole" ]
result $? "that command goes on, quotes and all" "$tmp/log"

# The time up to the stop counts, though no line of training had told it.
seconds_of() { # seconds_of KIND UPDATE
    sed -nE "s/^\{\"kind\": \"$1\", \"step\": $2,.*\"seconds\": ([0-9.e+-]+).*/\1/p" "$tmp/late/metrics.jsonl"
}
late=("${train[@]}" train.log_every=20 --out "$tmp/late")
"${late[@]}" --stop-at 19 >"$tmp/out" 2>&1 && "${late[@]}" >"$tmp/out" 2>&1
awk -v stopped="$(seconds_of save 19)" -v resumed="$(seconds_of resume 19)" -v end="$(seconds_of train 20)" \
    'BEGIN { exit !(stopped > 0 && resumed == stopped && end > stopped) }'
result $? "the time of training goes on where it stopped" "$tmp/late/metrics.jsonl"

# A time as the end: of schedules that do not mind when that is.
timed=("${train[@]}" train.steps=100000000 --out "$tmp/timed")
last_test() { grep '"which": "last"' "$1/metrics.jsonl" | tail -1; }
updates() { last_test "$1" | sed -E 's/.*"step": ([0-9]+),.*/\1/'; }
expect 0 'test accuracy of best' "a time ends a run" "${timed[@]}" train.minutes=0.003
first=$(updates "$tmp/timed")
expect 0 "resuming at update $first" "and more time" "${timed[@]}" train.minutes=0.03
check "of which no line is lost" test "$(grep -c 'lines are lost' "$tmp/out")" = 0
check "makes it longer" test "$(updates "$tmp/timed")" -gt "$first"
expect 0 'test accuracy of best' "the same updates, counted" "${train[@]}" train.steps="$(updates "$tmp/timed")" --out "$tmp/counted"
check "end at the same loss" diff <(last_test "$tmp/counted") <(last_test "$tmp/timed")
expect 78 'timed has had more than the 0.003 minutes that it is asked for' "a time less than it had" \
    "${timed[@]}" train.minutes=0.003
check "leaves the run what it was" grep -q '"minutes": 0.03' "$tmp/timed/config.json"
expect 78 'train.minutes = 1 goes with a train.schedule that has no end, constant or rsqrt' "not of others" \
    "${train[@]}" train.minutes=1 train.schedule=cosine --out "$tmp/none"

# Operations as the end: as many updates as come next to them.
update_gflop=$(sed -nE 's/^ *"gflop_update": ([0-9.e-]+),?$/\1/p' "$tmp/outline.json")
petaflops() { awk -v n="$1" -v g="$update_gflop" 'BEGIN { printf "%.9g", n * g / 1e6 }'; } # petaflops UPDATES
measured=("${train[@]}" train.steps=0 --out "$tmp/measured")
expect 0 '^updates +20 for [0-9.e-]+ PFLOP, 10 an epoch' "operations end a run" "${measured[@]}" train.petaflops="$(petaflops 20.4)"
check "as the same updates, counted, do" diff <(last_test "$tmp/whole") <(last_test "$tmp/measured")
check "which env.json tells" grep -q '"updates": 20,' "$tmp/measured/env.json"
expect 0 'nothing is left to train' "asked for again" "${measured[@]}" train.petaflops="$(petaflops 20.4)"
expect 0 'resuming at update 20$' "and more of them" "${measured[@]}" train.petaflops="$(petaflops 29.6)"
check "make it longer" test "$(updates "$tmp/measured")" = 30
expect 78 'measured has had 30 updates, more than the 20 that' "not fewer" "${measured[@]}" train.petaflops="$(petaflops 20)"
expect 0 '^updates +1 for' "one update at least" "${measured[@]}" train.petaflops=1e-12 --out "$tmp/dry" --dry-run
expect 0 '^updates +15 for.* cosine' "of schedules with an end too" \
    "${measured[@]}" train.petaflops="$(petaflops 15)" train.schedule=cosine --out "$tmp/dry" --dry-run
expect 78 'train.petaflops = 1 and train.steps = 20 exclude each other' "not with a number of updates" \
    "${train[@]}" train.petaflops=1 --out "$tmp/none"
expect 0 '^updates +4, ' "which a smoke run has" smoke "$tmp/words.json" train.petaflops=1 --fast

# TensorBoard's files change nothing: a run may begin with them and go on without.
events() { find "$1" -name 'events.out.tfevents.*' | wc -l; }
expect 0 'stopped|to go on' "a run with TensorBoard's files" \
    "${train[@]}" train.tensorboard=true --stop-at 7 --out "$tmp/board"
check "has one" test "$(events "$tmp/board")" = 1
check "with scalars of training" grep -aq 'train/grad_norm' "$tmp"/board/events.*
expect 0 'resuming at update 7' "goes on with another" "${train[@]}" train.tensorboard=true --out "$tmp/board" --stop-at 12
check "file" test "$(events "$tmp/board")" = 2
expect 0 'resuming at update 12' "and without" "${train[@]}" --out "$tmp/board"
check "to the same bits" test "$(hash_of "$tmp/board")" = "$whole"
check "others have none" test "$(events "$tmp/whole") $(events "$tmp/board")" = "0 2"
board=("$bin/cast_train" "$tmp/tiny.json" train.tensorboard=true --out "$tmp/boards")
"${board[@]}" --stop-at 11 >"$tmp/out" 2>&1
"${board[@]}" >>"$tmp/out" 2>&1
if python3 -c 'import tensorboard' 2>/dev/null; then
    check "TensorBoard reads what metrics.jsonl has" scripts/check_tensorboard.py "$tmp/boards"
else
    echo "ok # SKIP TensorBoard is not installed: its own reader does not check event files"
fi

# Lines of metrics are means of the updates since the last one.
each=("${train[@]}" --threads 1 --no-test)
"${each[@]}" train.log_every=1 --out "$tmp/each" >"$tmp/log" 2>&1 && "${each[@]}" --out "$tmp/fives" >>"$tmp/log" 2>&1
result $? "runs with a line an update, and one in five" "$tmp/log"
of_updates() { # of_updates RUN KEY: step and value
    sed -nE "s/^\{\"kind\": \"train\", \"step\": ([0-9]+),.*\"$2\": ([^,}]+).*/\1 \2/p" "$1/metrics.jsonl"
}
for key in loss accuracy grad_norm; do
    # shellcheck disable=SC2016
    check "$key is a mean" awk 'NR == FNR { want[$1] = $2; next }
        { sum += $2 / 5 }
        $1 % 5 == 0 { if (!($1 in want) || (sum - want[$1]) ^ 2 > 1e-10 * (1 + sum ^ 2)) exit 1; n++; sum = 0 }
        END { exit n != 4 }' <(of_updates "$tmp/fives" $key) <(of_updates "$tmp/each" $key)
done

epoch=$(sed -nE 's/^ *"updates_an_epoch": ([0-9]+),$/\1/p' "$tmp/outline.json")
# shellcheck disable=SC2016
check "an epoch is so many updates" awk -v epoch="$epoch" \
    '($2 * epoch - $1) ^ 2 > 1e-12 { bad = 1 } END { exit bad || NR != 20 }' <(of_updates "$tmp/each" epoch)

# Speeds, beside the time that went by and the work that a dry run tells. Each line is of an epoch, so that the mean
# example is all it had.
make_data "$tmp/pairs" retrieval 24 7 5 40
sed "s/listops/retrieval/; s#$tmp/data#$tmp/pairs#" "$tmp/tiny.json" >"$tmp/pairs.json"
paced=("$bin/cast_train" "$tmp/pairs.json" train.accumulate=2 train.log_every=3 train.steps=12 --threads 1 --no-test)
"${paced[@]}" --out "$tmp/dry" --dry-run --json >"$tmp/outline.json" 2>"$tmp/said"
"${paced[@]}" --out "$tmp/paced" >"$tmp/log" 2>&1
for key in seconds samples_per_s tokens_per_s gflops peak_share; do
    of_updates "$tmp/paced" $key | cut -d ' ' -f 2 >"$tmp/$key"
done
paste "$tmp"/{seconds,samples_per_s,tokens_per_s,gflops,peak_share} >"$tmp/columns"
outlined() { sed -nE "s/^ *\"$1\": ([0-9.e+-]+),?\$/\1/p" "$tmp/outline.json"; }
same() { # same NAME A B: expressions, equal in every line
    check "$1" awk -v forward="$(outlined gflop_forward)" -v all="$(outlined gflop_update)" \
        -v mean="$(outlined tokens_mean)" \
        "{ elapsed = \$1 - before; before = \$1; samples = \$2; tokens = \$3; gflops = \$4 }
        !($3 > 0) || ($2 - ($3)) ^ 2 > 1e-8 * ($3) ^ 2 { bad = 1 } END { exit bad || NR != 4 }" "$tmp/columns"
}
same "samples are of the time since the line before" 'samples * elapsed' '3 * 4 * 2'
same "tokens are those of examples" tokens 'samples * mean'
same "FLOPs are forward and backward" gflops 'samples * 3 * forward'
same "an update is of all its batches" all '3 * 4 * 2 * forward'
"$bin/cast_eval" "$tmp/paced" --split train --json >"$tmp/evaluated" 2>/dev/null
check "attention's share of exact attention's is that of cast_eval" grep -q \
    "\"flops_share\":$(outlined attention_share | sed 's/[.]/[.]/')" "$tmp/evaluated"
check "and is told" grep -qE "^work  .*; attention, without projections, [0-9.]+ % of exact attention's\$" "$tmp/said"
"${paced[@]}" model.attention.type=full --out "$tmp/dry" --dry-run >"$tmp/full" 2>&1
check "but not of exact attention" bash -c "grep -q '^work  ' '$tmp/full' && ! grep -q 'of exact' '$tmp/full'"
# shellcheck disable=SC2016
check "a share is of about the peak that a dry run measures" awk -v peak="$(outlined peak_gflops)" '
    $5 > 0 && ($4 > 9 * $5 * peak || $4 < $5 * peak / 9) { bad = 1 }
    END { exit bad || NR != 4 }' "$tmp/columns"
best=$(sed -nE 's/^ *"peak_gflops": ([0-9.e+]+),?$/\1/p' "$tmp/paced/env.json")
# shellcheck disable=SC2016
check "none is below that of the best peak, which env.json has" awk -v best="${best:-0}" '
    $5 > 1 || $5 * best < $4 * (1 - 1e-6) { bad = 1 } END { exit bad || NR != 4 || !(best > 0) }' "$tmp/columns"

began=$SECONDS
"${long[@]}" --out "$tmp/reference" >"$tmp/log" 2>&1
result $? "a longer run" "$tmp/log"
lines=$(grep -c '^[0-9]*/[0-9]* ep ' "$tmp/log")
check "a line of progress in 10 seconds" test "$lines" -ge 1 -a "$lines" -le $((2 + (SECONDS - began) / 10))
reference=$(hash_of "$tmp/reference")

# Starts the command in the background, and waits until its metrics have a line of update $2.
start() { # start OUT UPDATE COMMAND...
    local out=$1 update=$2
    shift 2
    "$@" --out "$out" >"$tmp/out" 2>&1 &
    pid=$!
    until grep -q "\"step\": $update," "$out/metrics.jsonl" 2>/dev/null; do
        kill -0 $pid 2>/dev/null || break
        sleep 0.01
    done
}

for signal in TERM USR1 HUP INT; do
    start "$tmp/run-$signal" 40 env --default-signal=$signal "${long[@]}"
    kill -$signal $pid
    wait $pid
    [ $? -eq 75 ] && grep -q "SIG$signal: stopped after update" "$tmp/out" && grep -q '^to go on: ' "$tmp/out"
    result $? "SIG$signal saves and exits 75" "$tmp/out"
    stopped=$(sed -nE "s/.*SIG$signal: stopped after update ([0-9]+) of.*/\1/p" "$tmp/out")
    expect 0 "resuming at update ${stopped:-none}\$" "where it stopped" "${long[@]}" --out "$tmp/run-$signal" --dry-run
    "${long[@]}" --out "$tmp/run-$signal" >"$tmp/out" 2>&1
    [ "$(hash_of "$tmp/run-$signal")" = "$reference" ]
    result $? "and the run ends with the same bits" "$tmp/out"
done

# A pause is no training: what is counted fits into the rest of the time, however busy the machine.
began=$(date +%s.%N)
start "$tmp/paused" 40 "${long[@]}"
kill -STOP $pid
sleep 3
kill -CONT $pid
wait $pid
seconds=$(grep '"train"' "$tmp/paused/metrics.jsonl" | tail -n 1 | grep -oE '"seconds": [0-9.]+' | cut -d ' ' -f 2)
check "a pause of 3 s is not counted" awk -v began="$began" -v now="$(date +%s.%N)" -v counted="$seconds" \
    'BEGIN { exit !(counted > 0 && counted < now - began - 2.9) }'

# Nothing else saves it in the meantime.
endless=("${long[@]}" train.steps=1000000 train.eval_every=1000000 train.save_minutes=10)
start "$tmp/run-USR2" 40 "${endless[@]}"
kill -USR2 $pid
for ((i = 0; i < 1000; i++)); do grep -q 'SIGUSR2: update' "$tmp/out" && break; sleep 0.01; done
saved=$(sed -nE 's/^SIGUSR2: update ([0-9]+) is saved.*/\1/p' "$tmp/out")
until [ "$(grep '"train"' "$tmp/run-USR2/metrics.jsonl" | tail -n 1 | grep -oE '"step": [0-9]+' | cut -c9-)" -gt "${saved:-0}" ]; do
    kill -0 $pid 2>/dev/null || break
    sleep 0.01
done
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
[ $? -eq 137 ] && "${endless[@]}" --out "$tmp/run-USR2" --dry-run 2>&1 | grep -q "resuming at update ${saved:-none}\$"
result $? "SIGUSR2 saves and goes on" "$tmp/out"

# By the clock alone: no validation comes, and nobody asks. A second line of a save stands behind a first checkpoint.
clock=("${endless[@]}" train.save_minutes=0.01)
start "$tmp/run-clock" 40 "${clock[@]}"
for ((i = 0; i < 3000; i++)); do
    [ "$(lines_of "$tmp/run-clock" save)" -lt 2 ] || break
    kill -0 $pid 2>/dev/null || break
    sleep 0.01
done
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
check "train.save_minutes saves, again and again" test "$(lines_of "$tmp/run-clock" save)" -ge 2
expect 0 'resuming at update [1-9][0-9]*$' "between validations" "${clock[@]}" --out "$tmp/run-clock" --dry-run

# As under nohup.
start "$tmp/run-nohup" 40 env --ignore-signal=HUP "${endless[@]}"
kill -HUP $pid
sleep 0.3
kill -TERM $pid
wait $pid
[ $? -eq 75 ] && grep -q 'SIGTERM: stopped after' "$tmp/out" && ! grep -q SIGHUP "$tmp/out"
result $? "SIGHUP that is ignored from the start stops nothing" "$tmp/out"

# In a validation, which here is nearly all there is.
make_data "$tmp/slow" listops 8 400 9 60
slow=("$bin/cast_train" "$tmp/tiny.json" data.dir="$tmp/slow" train.batch=1 train.eval_every=1 train.log_every=1
    train.steps=4 model.depth=3 model.d=96 model.d_ff=384)
"${slow[@]}" --out "$tmp/slow-whole" >"$tmp/out" 2>&1
for ((i = 0; i < 10; i++)); do # where it was over before the signal came, once more
    rm -rf "$tmp/slow-run"
    start "$tmp/slow-run" 2 "${slow[@]}"
    kill -TERM $pid 2>/dev/null
    wait $pid
    stopped=$(sed -nE 's/.*stopped after update ([0-9]+).*/\1/p' "$tmp/out")
    [ -n "$stopped" ] && ! grep -q "\"val\", \"step\": $stopped," "$tmp/slow-run/metrics.jsonl" && break
done
[ -n "$stopped" ] && ! grep -q "\"val\", \"step\": $stopped," "$tmp/slow-run/metrics.jsonl"
result $? "SIGTERM in a validation" "$tmp/out"

# In the tests at a run's end, which are nearly all there is here.
make_data "$tmp/tested" listops 8 5 400 60
tested=("${slow[@]}" data.dir="$tmp/tested")
"${tested[@]}" --out "$tmp/tested-whole" >"$tmp/out" 2>&1
for ((i = 0; i < 10; i++)); do # where they were over before the signal came, once more
    rm -rf "$tmp/tested-run"
    "${tested[@]}" --out "$tmp/tested-run" >"$tmp/out" 2>&1 &
    pid=$!
    until grep -qs '"val", "step": 4,' "$tmp/tested-run/metrics.jsonl" || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
    kill -TERM $pid 2>/dev/null
    wait $pid
    status=$?
    [ $status -ne 0 ] && [ "$(lines_of "$tmp/tested-run" test)" = 0 ] && break
done
[ "$status" -eq 75 ] && [ "$(lines_of "$tmp/tested-run" test)" = 0 ] && grep -q 'stopped after update 4 ' "$tmp/out"
result $? "SIGTERM in a test (status $status)" "$tmp/out"
expect 0 'test accuracy of best' "which is made then" "${tested[@]}" --out "$tmp/tested-run"
check "of the same weights" test "$(hash_of "$tmp/tested-run")" = "$(hash_of "$tmp/tested-whole")"
for words in cast_eval 'cast_viz --stats'; do
    for ((i = 0; i < 20; i++)); do # 143: before it had a handler; 0: it was faster
        # shellcheck disable=SC2086 # words
        "$bin"/$words "$tmp/tested-whole" --threads 1 >"$tmp/out" 2>&1 &
        pid=$!
        until catches $pid TERM || ! kill -0 $pid 2>/dev/null; do :; done
        kill -TERM $pid 2>/dev/null
        wait $pid
        status=$?
        case $status in 0 | 143) ;; *) break ;; esac
    done
    [ "$status" -eq 75 ] && grep -q 'SIGTERM: stopped' "$tmp/out"
    result $? "${words%% *} that is stopped (status $status)" "$tmp/out"
done
"${slow[@]}" --out "$tmp/slow-run" >"$tmp/out" 2>&1
[ "$(hash_of "$tmp/slow-run")" = "$(hash_of "$tmp/slow-whole")" ] &&
    [ "$(grep -c '"val"' "$tmp/slow-run/metrics.jsonl")" = 4 ]
result $? "which is then made again" "$tmp/out"

# A micro-batch of seconds: the flag is not looked at before the second signal. One that comes with the first is no
# second one: timeout(1) signals the program, and at once all of its group.
twice=("${train[@]}" train.batch=40 train.accumulate=1 train.log_every=1 train.steps=100000 train.eval_every=100000
    train.save_minutes=1000 model.d=256 model.heads=4
    --threads 1)
signal_twice() { # signal_twice PAUSE DEPTH: sets status, and gap to the microseconds between both
    local began
    start "$tmp/twice-$1-$2" 1 "${twice[@]}" model.depth="$2"
    kill -TERM $pid
    began=${EPOCHREALTIME/[,.]/}
    sleep "$1"
    kill -TERM $pid 2>/dev/null
    gap=$((${EPOCHREALTIME/[,.]/} - began))
    wait $pid 2>/dev/null
    status=$?
}
signal_twice 0.1 16
[ $status -eq 75 ] || [ $gap -gt 400000 ]
result $? "a second signal after 0.1 s (status $status)" "$tmp/out"
for depth in 16 64 128 256 512; do # where less of a micro-batch is left, a longer one
    signal_twice 0.7 $depth
    [ $status -eq 143 ] && break
done
[ $status -eq 143 ]
result $? "a second signal after 0.7 s (status $status)" "$tmp/out"

# Killed without warning again and again, at whatever it was doing.
"${long[@]}" --out "$tmp/killed" --stop-at 3 >"$tmp/out" 2>&1
killed=0
for ((i = 0; i < 8; i++)); do
    "${long[@]}" --out "$tmp/killed" --threads $((i % 2 + 1)) >"$tmp/out" 2>&1 &
    pid=$!
    nap 50 300
    kill -KILL $pid 2>/dev/null && killed=$((killed + 1))
    wait $pid 2>/dev/null
done
"${long[@]}" --out "$tmp/killed" >"$tmp/out" 2>&1
[ $killed -gt 0 ] && grep -q 'resuming at update' "$tmp/out" && [ "$(hash_of "$tmp/killed")" = "$reference" ]
result $? "killed $killed times, the same bits" "$tmp/out"
check "and nothing is left over" test -z "$(find "$tmp/killed" -name '*.tmp.*')"
