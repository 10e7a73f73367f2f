#!/bin/bash
# cast_sweep from outside: killed and stopped at any moment it ends as if it had not been; what fails holds up no other
# run; several sweeps in one directory; jobs for Slurm.
set -u
. tests/training.sh
make_data "$tmp/data" listops 24 6 6 30
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 8, "d_ff": 8, "d_emb": 8, "max_length": 30,
             "attention": { "clusters": 3 } },
  "train": { "steps": 600, "batch": 3, "lr": 5e-3, "log_every": 5, "eval_every": 100, "save_minutes": 0.01 } }
END
sweep=("$bin/cast_sweep" "$tmp/tiny.json" "model.attention.clusters=2,3" --seeds 1..2 --threads 1)
runs=("clusters=2,seed=1" "clusters=3,seed=1" "clusters=2,seed=2" "clusters=3,seed=2")

lines() { cat "$1"/*/metrics.jsonl 2>/dev/null | wc -l; }
# Waits until a sweep has written so many lines, or has ended.
until_lines() { # until_lines DIR LINES PID
    while kill -0 "$3" 2>/dev/null && [ "$(lines "$1")" -lt "$2" ]; do sleep 0.01; done
}

# ---- what it does and leaves ----

expect 0 '^usage: cast_sweep' "help" "$bin/cast_sweep" --help
expect 0 '^    3    clusters=2,seed=2  to be run' "a dry run lists the runs" "${sweep[@]}" --out "$tmp/whole" --dry-run
check "and touches nothing" test ! -e "$tmp/whole"
expect 0 'run 2 of 4, sweep [0-9]+ %, .* left; [0-9]+/600 ' "sweeps, and tells how far it is" \
    "${sweep[@]}" --out "$tmp/whole"
check "and what comes next" grep -q "cast_report $tmp/whole$" "$tmp/out"
check "no terminal codes in a log" test -z "$(tr -d '[:print:]\n±' <"$tmp/out")"
check "a directory a run" test "$(cd "$tmp/whole" && echo */)" = \
    "clusters=2,seed=1/ clusters=2,seed=2/ clusters=3,seed=1/ clusters=3,seed=2/"
check "sweep.json says what was swept" grep -q '"model.attention.clusters": \[2, 3\]' "$tmp/whole/sweep.json"
"$bin/cast_train" "$tmp/tiny.json" model.attention.clusters=3 train.seed=2 --out "$tmp/alone" --threads 1 >"$tmp/log" 2>&1
[ "$(hash_of "$tmp/alone")" = "$(hash_of "$tmp/whole/${runs[3]}")" ]
result $? "a run is that of cast_train" "$tmp/log"
was=$(lines "$tmp/whole")
expect 0 '4 runs, 4 done' "called again, all is done" "${sweep[@]}" --out "$tmp/whole"
check "and nothing is tested again" test "$(lines "$tmp/whole")" = "$was"

cp -r "$tmp/whole" "$tmp/a b"
expect 0 "^to see them: cast_report '$tmp/a b'\$" "the command to see them is as a shell reads it" \
    "${sweep[@]}" --out "$tmp/a b"

# ---- stop and go ----

same_as_whole() { # same_as_whole DIR
    local run
    for run in "${runs[@]}"; do
        [ "$(hash_of "$1/$run")" = "$(hash_of "$tmp/whole/$run")" ] || { echo "$run: other weights"; return 1; }
        diff <(metrics_of "$tmp/whole/$run") <(metrics_of "$1/$run") || return 1
    done
}

# Killed five times, at random moments of its first five eighths: the process alone, all its processes, and by SIGTERM.
hit=0
for ((i = 0; i < 5; i++)); do
    setsid "${sweep[@]}" --out "$tmp/killed" >"$tmp/killed.log" 2>&1 &
    pid=$!
    until_lines "$tmp/killed" $((was * i / 8 + RANDOM % (was / 8))) $pid
    sleep 0.00$((RANDOM % 10))
    # One that is slow to start: until it handles SIGTERM, and until setsid has made its group.
    [ $i != 2 ] || until catches $pid TERM || ! kill -0 $pid; do :; done 2>/dev/null
    until kill -0 -- -$pid || ! kill -0 $pid; do :; done 2>/dev/null
    case $i in
    0 | 3) kill -KILL $pid ;;
    1 | 4) kill -KILL -- -$pid ;;
    *) kill -TERM $pid ;;
    esac 2>/dev/null && hit=$((hit + 1))
    wait $pid 2>/dev/null
    status=$?
    [ $i = 2 ] || continue
    [ $status -eq 75 ] && grep -q "^to go on: .*cast_sweep .*--out $tmp/killed$" "$tmp/killed.log"
    result $? "SIGTERM: status 75, and how to go on" "$tmp/killed.log"
done
check "five times" test $hit = 5
expect 0 '4 of 4 runs are done' "the same command goes on" "${sweep[@]}" --out "$tmp/killed"
check "to the same weights and metrics" same_as_whole "$tmp/killed"
check "and nothing is left over" test -z "$(find "$tmp/killed" -name '*.tmp.*')"

# Ctrl-C comes to all processes, and must not count twice.
set -m
"${sweep[@]}" train.steps=100000000 --out "$tmp/keys" >"$tmp/out" 2>&1 &
pid=$!
set +m
until_lines "$tmp/keys" 20 $pid
kill -INT -- -$pid
wait $pid
[ $? -eq 75 ] && grep -q 'SIGINT: stopped after update [0-9]* of 100000000, which is saved' "$tmp/out"
result $? "Ctrl-C saves" "$tmp/out"

# A signal that the sweep alone gets is for the run at hand.
"${sweep[@]}" train.steps=100000000 train.save_minutes=10 train.eval_every=100000000 --out "$tmp/saves" >"$tmp/out" 2>&1 &
pid=$!
until_lines "$tmp/saves" 20 $pid
kill -USR2 $pid
for ((i = 0; i < 500; i++)); do grep -q 'SIGUSR2: update [0-9]* is saved in' "$tmp/out" && break; sleep 0.02; done
kill -TERM $pid
wait $pid
[ $? -eq 75 ] && [ $i -lt 500 ]
result $? "SIGUSR2 to a sweep: its run saves and goes on" "$tmp/out"

# Who kills the sweep means its run too, which would go on for hours.
"${sweep[@]}" train.steps=100000000 --out "$tmp/orphan" >"$tmp/out" 2>&1 &
pid=$!
until_lines "$tmp/orphan" 20 $pid
child=$(sed -n 's/^process \([0-9]*\) .*/\1/p' "$tmp/orphan/${runs[0]}/lock")
{
    kill -KILL $pid
    wait $pid
    # A zombie has ended, too, where process 1 does not wait for it.
    for ((i = 0; i < 500; i++)); do grep -q '^State:[[:space:]]*[^ZX]' "/proc/$child/status" || break; sleep 0.02; done
} 2>/dev/null
check "a killed sweep leaves no run behind" test -n "$child" -a $i -lt 500
[ $i -lt 500 ] || kill -KILL "$child" 2>/dev/null

# A signal to one whose run cannot be saved: that is no stop which loses nothing.
"${sweep[@]}" train.steps=100000000 --out "$tmp/unsaved" >"$tmp/out" 2>&1 &
pid=$!
until_lines "$tmp/unsaved" 20 $pid
child=$(sed -n 's/^process \([0-9]*\) .*/\1/p' "$tmp/unsaved/${runs[0]}/lock")
kill -STOP "$child" # or it might save, and end, before the signal is there
mv "$tmp/unsaved/${runs[0]}" "$tmp/away"
kill -TERM $pid
kill -CONT "$child"
wait $pid
[ $? -eq 74 ] && grep -q '^failed   run 1, ' "$tmp/out" && grep -q '^to go on: ' "$tmp/out"
result $? "a stop that loses something is an error" "$tmp/out"

# ---- what fails ----

expect 64 'no CONFIG' "no config" "$bin/cast_sweep"
expect 64 'out DIR is missing' "no directory" "$bin/cast_sweep" "$tmp/tiny.json"
expect 64 'there are 4 runs' "a run that is none" "${sweep[@]}" --out "$tmp/x" --only 5
expect 78 "'model.depht' is unknown; did you mean" "a misspelt key" "${sweep[@]}" model.depht=1,2 --out "$tmp/x"
expect 66 'nowhere.json' "a missing config" "$bin/cast_sweep" "$tmp/nowhere.json" --out "$tmp/x"
check "leave nothing" test ! -e "$tmp/x"
expect 78 'whole holds a sweep of another config: train.batch \(3, now 4\)\. Use another --out, or, to have both in one, train.batch=WAS,NOW$' "another base config" "${sweep[@]}" train.batch=4 --out "$tmp/whole"
expect 0 '8 runs, 4 done$' "both in one" "${sweep[@]}" train.batch=3,4 --out "$tmp/whole" --dry-run
expect 78 'now 0.5\)\. Use another --out$' "which is not for two" "${sweep[@]}" train.batch=4 train.weight_decay=0.5 --out "$tmp/whole"
expect 73 'is the directory of a run' "a run's directory" "${sweep[@]}" --out "$tmp/whole/${runs[0]}"
expect 73 'tiny.json: cannot be created' "a directory below a file" "${sweep[@]}" --out "$tmp/tiny.json/x"

bad=("$bin/cast_sweep" "$tmp/tiny.json" "model.heads=2,3" "train.lr=1000,5e-3" train.weight_decay=10 train.steps=60
    --out "$tmp/bad" --threads 1)
expect 1 '^failed   run 1, heads=2,lr=1000: update [0-9]+: loss .* not (be )?finite' "a run whose numbers are not finite" "${bad[@]}"
check "a combination that cannot be" grep -q '^failed   run 3, heads=3,lr=1000: .* must divide model.d = 8' "$tmp/out"
check "hold up no other" grep -q '1 of 4 runs are done' "$tmp/out"
check "and may be tried again" grep -q '^to try again what failed: ' "$tmp/out"
expect 1 '4 runs, 1 done, 1 begun, 2 cannot be run' "fail again" "${bad[@]}"
expect 1 '^failed   run 1, ' "also where the ends of children are ignored" env --ignore-signal=CHLD "${bad[@]}"

both=("$bin/cast_sweep" "$tmp/tiny.json" "model.attention.type=cast,full" "model.attention.clusters=2,3" train.steps=2)
expect 0 'both: 3 of 3 runs are done' "a key of one mechanism is none of the other's" "${both[@]}" --out "$tmp/both" --threads 1
check "which has one run" test "$(cd "$tmp/both" && echo */)" = \
    "type=cast,clusters=2/ type=cast,clusters=3/ type=full/"
expect 0 '3 runs, 3 done' "and that is found again" "${both[@]}" --out "$tmp/both" --dry-run
expect 0 'sbatch' "a job script" "${both[@]}" --out "$tmp/more" --slurm "$tmp/both.sh" --nodes 2
check "gives it none of them" grep -q "^3) run=(model.attention.type=full train.steps=2 --out" "$tmp/both.sh"
expect 78 "'model.attention.cluster' is unknown; did you mean" "one of neither is refused" \
    "${both[@]}" model.attention.cluster=4 --out "$tmp/x"

lacks() { # lacks WHY NAME KEY=VALUE...: one run cannot be, before the other is made
    expect 0 "cannot be run: $1" "$2" "$bin/cast_sweep" "$tmp/tiny.json" "${@:3}" --out "$tmp/lacks" --dry-run
    check "and the other can" grep -q 'to be run$' "$tmp/out"
}
lacks 'out of memory: ' "a run without the memory" model.d=8,65536 model.depth=1024
lacks '.*: an update takes train.batch = 100 ' "without the examples" train.batch=3,100
lacks '.*/none: no prepared data' "without data" data.dir="$tmp/data,$tmp/none"
lacks 'train.init: .*/none: cannot be read' "without the weights to begin with" train.init="$tmp/none,\"\""
expect 0 'sbatch' "which a job on another machine may have" \
    "$bin/cast_sweep" "$tmp/tiny.json" model.d=8,65536 model.depth=1024 --out "$tmp/lacks" --slurm "$tmp/lacks.sh"
check "so that it is among them" grep -qx '#SBATCH --array=1-2' "$tmp/lacks.sh"
expect 0 'slurm    3 CPUs a task, as OMP_NUM_THREADS says here' "as many cores as the variable says" \
    env OMP_NUM_THREADS=3 "$bin/cast_sweep" "$tmp/tiny.json" --seeds 1..2 --out "$tmp/lacks-3" --slurm "$tmp/lacks-3.sh"

for ((i = 0; i < 10; i++)); do # until it comes before the run is over, which takes a tenth of a second
    rm -rf "$tmp/child"
    "${sweep[@]}" --out "$tmp/child" >"$tmp/out" 2>&1 &
    pid=$!
    until_lines "$tmp/child" 20 $pid
    kill -KILL "$(sed -n 's/^process \([0-9]*\) .*/\1/p' "$tmp/child/${runs[0]}/lock")" 2>/dev/null
    wait $pid
    status=$?
    [ $status -eq 0 ] || break
done
[ "$status" -eq 1 ] && grep -q '^failed   run 1, .* signal 9' "$tmp/out" && grep -q '3 of 4 runs are done' "$tmp/out"
result $? "a run that is killed ends alone" "$tmp/out"
expect 0 '4 of 4 runs are done' "and goes on with the next call" "${sweep[@]}" --out "$tmp/child"
check "to the same weights and metrics" same_as_whole "$tmp/child"

# ---- more of the same ----

cp -r "$tmp/whole" "$tmp/more"
more=("$bin/cast_sweep" "$tmp/tiny.json" --out "$tmp/more" --threads 1)
mv "$tmp/data" "$tmp/moved"
expect 0 "more: was made with the data in $tmp/data, which are now looked for in $tmp/moved" "data that were moved are told" \
    "${sweep[@]}" data.dir="$tmp/moved" --out "$tmp/more"
check "and taken for the same" grep -q '4 of 4 runs are done' "$tmp/out"
expect 0 '4 runs, 4 done' "once" "${sweep[@]}" data.dir="$tmp/moved" --out "$tmp/more"
check "that is" test "$(grep -c 'was made with' "$tmp/out")" = 0
mv "$tmp/moved" "$tmp/data"
expect 0 '12 runs, 4 done' "more values and another key" \
    "${more[@]}" model.attention.clusters=2,3,4 train.lr=0.005,0.001 --seeds 1,2 --dry-run
expect 64 "'train.lr' is given twice" "the same key twice" "${more[@]}" train.lr=0.005 train.lr=0.001
expect 0 '2 runs, 1 done' "extends what is there" "${more[@]}" model.attention.clusters=3,4 --seeds 1
check "and says so" grep -q '"model.attention.clusters": \[2, 3, 4\]' "$tmp/more/sweep.json"
check "in a directory of its own" test -e "$tmp/more/clusters=4,seed=1/last.safetensors"
(
    exec 9>"$tmp/more/lock"
    flock 9
    expect 73 'is in use by' "a sweep at work in the same directory" "${more[@]}" model.attention.clusters=3,4
)

# ---- Slurm ----

odd="$tmp/it's here"
expect 0 "slurm    a dry run does not write $tmp/dry.sh" "a dry run with a job script" "${sweep[@]}" --out "$tmp/x" --slurm "$tmp/dry.sh" --dry-run
check "writes none" test ! -e "$tmp/dry.sh"
expect 73 'nowhere' "a job script to nowhere" "${sweep[@]}" --out "$tmp/x" --slurm "$tmp/nowhere/job.sh"
check "leaves nothing" test ! -e "$tmp/x"
printf '#!/bin/bash\necho mine\n' >"$tmp/mine.sh"
expect 73 'is no script that cast_sweep wrote' "or over a script of another's" "${sweep[@]}" --out "$tmp/x" --slurm "$tmp/mine.sh"
check "leaves that" grep -q mine "$tmp/mine.sh"
expect 0 "sbatch $tmp/job.sh" "writes a job script" "${sweep[@]}" --out "$odd" --slurm "$tmp/job.sh"
check "that bash reads" bash -n "$tmp/job.sh"
if command -v shellcheck >/dev/null; then
    check "and shellcheck" shellcheck "$tmp/job.sh"
else
    echo "ok # SKIP shellcheck is not installed: it does not check the job script"
fi
check "a task a run" grep -qx '#SBATCH --array=1-4' "$tmp/job.sh"
check "with time to save" grep -qx '#SBATCH --signal=TERM@120' "$tmp/job.sh"
check "queued again" grep -qx '#SBATCH --requeue' "$tmp/job.sh"
check "without running anything" test ! -e "$odd/${runs[0]}"
expect 0 'sbatch' "or into the sweep's own directory" "${sweep[@]}" --out "$tmp/inside" --slurm "$tmp/inside/job.sh"
check "which it makes" test -s "$tmp/inside/job.sh"
expect 0 'slurm    [0-9]* CPUs a task, as many as there are cores here: --threads N' "another, of runs of which some cannot be" \
    "$bin/cast_sweep" "$tmp/tiny.json" model.heads=2,3,4,8 --out "$tmp/some" --slurm "$tmp/some.sh"
check "leaves these out" grep -qx '#SBATCH --array=1,3-4' "$tmp/some.sh"
expect 0 'sbatch' "a job of so many threads" "${sweep[@]}" --threads 7 --out "$tmp/seven" --slurm "$tmp/seven.sh"
check "asks for as many CPUs" grep -qx '#SBATCH --cpus-per-task=7' "$tmp/seven.sh"
check "and runs as many" grep -q ' --threads 7 ' "$tmp/seven.sh"

# What is the user's in a script is there when it is written anew.
yours=("$bin/cast_sweep" "$tmp/tiny.json" "model.attention.clusters=2,3" --threads 1 --out "$tmp/yours" --slurm "$tmp/yours.sh")
expect 0 'sbatch' "a script to be edited" "${yours[@]}" --seeds 1..2
check "which has nothing of the user's" test "$(grep -c 'your own lines' "$tmp/out")" = 0
sed -i 's/^# Yours, kept.*/&\n#SBATCH --time=3:00:00 --mem=4G\necho "loaded a  module"/' "$tmp/yours.sh"
cp "$tmp/yours.sh" "$tmp/yours.old"
expect 0 "your own lines in $tmp/yours.sh were kept" "the same with more seeds" "${yours[@]}" --seeds 1..3
check "has more tasks" grep -qx '#SBATCH --array=1-6' "$tmp/yours.sh"
check "and keeps the rest" diff <(sed 's/1-4$/1-6/; s/1\.\.2/1..3/' "$tmp/yours.old") "$tmp/yours.sh"
check "lines of sbatch before the first command" awk '/^#SBATCH/ && command { exit 1 } !/^#/ { command = 1 }' "$tmp/yours.sh"
SLURM_ARRAY_TASK_ID=6 expect 0 '^loaded a  module$' "a task has the user's commands" "$tmp/yours.sh"
check "and makes its run" test -e "$tmp/yours/clusters=3,seed=3/best.safetensors"
expect 0 'sbatch' "several nodes" "${yours[@]}" --seeds 1..4 --nodes 2
check "keep them too" grep -qx 'echo "loaded a  module"' "$tmp/yours.sh"
refuses_script() { # refuses_script STATUS PATTERN NAME SED: of $tmp/yours.sh, changed so
    sed "$4" "$tmp/yours.old" >"$tmp/yours.sh"
    cp "$tmp/yours.sh" "$tmp/changed.sh"
    expect "$1" "yours.sh: $2" "$3" "${yours[@]}" --seeds 1..9
    check "leaves it" cmp "$tmp/changed.sh" "$tmp/yours.sh"
    check "and sweeps nothing" test "$(grep -c '"seeds": \[1, 2, 3, 4\]' "$tmp/yours/sweep.json")" = 1
}
refuses_script 73 'is there without .*0.1.0.*move it away' "a script of a version without such lines" '/^# Yours,/d; /^# End of/d'
refuses_script 65 "line [0-9]*: .*without '# End of yours.' behind it" "one whose end is gone" '/^# End of/d'
refuses_script 65 'line [0-9]*: .*without .* before it' "one whose beginning is gone" '/^# Yours,/d'
refuses_script 65 'line [0-9]*: .*is there again' "one with two" 's/^# Yours,.*/&\n&/'

# srun that stops its step as Slurm does before the time is up, and scontrol that tells what it is asked.
mkdir "$tmp/slurm"
cat >"$tmp/slurm/srun" <<'END'
#!/bin/bash
while [[ $1 = --* ]]; do shift; done
for try in {1..10}; do # until it comes before the run is over
    "$@" &
    pid=$!
    until [ -s "$METRICS" ] || ! kill -0 $pid; do sleep 0.01; done
    kill -TERM $pid
    wait $pid
    status=$?
    [ $status -eq 0 ] || exit $status
    rm -r "${METRICS%/*}"
done
END
printf '#!/bin/bash\necho "$@"\n' >"$tmp/slurm/scontrol"
chmod +x "$tmp"/slurm/*
PATH=$tmp/slurm:$PATH METRICS=$odd/${runs[1]}/metrics.jsonl SLURM_JOB_ID=78 SLURM_ARRAY_JOB_ID=77 SLURM_ARRAY_TASK_ID=2 \
    expect 75 '^requeue 77_2$' "a task that has to stop is queued again" "$tmp/job.sh"
printf '#!/bin/bash\nexit 143\n' >"$tmp/slurm/killed"
chmod +x "$tmp/slurm/killed"
PATH=$tmp/slurm:$PATH SLURM_JOB_ID=78 SLURM_ARRAY_JOB_ID=77 SLURM_ARRAY_TASK_ID=2 \
    expect 143 '^requeue 77_2$' "and one that is stopped before it begins" \
    bash -c "ln -sf killed '$tmp/slurm/srun'; exec '$tmp/job.sh'"
for task in 4 2 1 3; do
    (cd / && SLURM_ARRAY_TASK_ID=$task "$tmp/job.sh") >"$tmp/log$task" 2>&1 &
    tasks[task]=$!
done
for task in 4 2 1 3; do
    wait "${tasks[task]}"
    result $? "task $task, beside the others" "$tmp/log$task"
done
check "make the same weights and metrics" same_as_whole "$odd"
SLURM_ARRAY_TASK_ID=3 expect 0 '4 runs, 4 done' "a task whose run is done" "$tmp/job.sh"

# Several nodes a run: mpirun that is one process here.
printf '#!/bin/bash\necho "mpirun $*"\nshift 9\nexec "$@"\n' >"$tmp/slurm/mpirun"
chmod +x "$tmp/slurm/mpirun"
expect 64 'nodes is of --slurm' "nodes without a script" "${sweep[@]}" --out "$tmp/x" --nodes 2
expect 0 'sbatch' "a script of two nodes a run" "${sweep[@]}" --out "$tmp/the nodes" --slurm "$tmp/nodes.sh" --nodes 2
check "asks for them" grep -qx '#SBATCH --nodes=2' "$tmp/nodes.sh"
if command -v shellcheck >/dev/null; then
    check "is what shellcheck takes" shellcheck "$tmp/nodes.sh"
else
    echo "ok - # SKIP no shellcheck: a script of several nodes"
fi
check "by another signal than that of scancel" grep -qx '#SBATCH --signal=B:USR1@120' "$tmp/nodes.sh"
stopped_by() { # stopped_by SIGNAL TASK: once its run is there, and not over; its output is $tmp/log
    local job i status run=$tmp/the\ nodes/${runs[$2 - 1]}
    for ((i = 0; i < 10; i++)); do
        rm -rf "$run"
        PATH=$tmp/slurm:$PATH SLURM_ARRAY_JOB_ID=77 SLURM_ARRAY_TASK_ID=$2 "$tmp/nodes.sh" >"$tmp/log" 2>&1 &
        job=$!
        until [ -s "$run/metrics.jsonl" ] || ! kill -0 $job 2>/dev/null; do sleep 0.01; done
        kill "-$1" $job 2>/dev/null
        wait $job
        status=$?
        [ $status -eq 0 ] || break
    done
    return $status
}
stopped_by TERM 1
[ $? -eq 75 ] && ! grep -q 'requeue' "$tmp/log"
result $? "a run that is cancelled saves, and is not queued again" "$tmp/log"
stopped_by USR1 2
[ $? -eq 75 ] && grep -q '^mpirun --map-by ppr:1:node --bind-to none .* -n 2 ' "$tmp/log" && grep -qx 'requeue 77_2' "$tmp/log"
result $? "one whose time is up is queued again" "$tmp/log"
for task in 4 2 1 3; do
    PATH=$tmp/slurm:$PATH SLURM_ARRAY_TASK_ID=$task expect 0 'mpirun' "task $task of several nodes" "$tmp/nodes.sh"
done
check "these make the same weights and metrics" same_as_whole "$tmp/the nodes"
expect 0 'no script: all runs are done' "runs that are done" "${sweep[@]}" --out "$tmp/the nodes" --slurm "$tmp/none.sh" --nodes 2
check "have none" test ! -e "$tmp/none.sh"
rm -r "$tmp/the nodes/${runs[1]}"
expect 0 'sbatch' "one that is not" "${sweep[@]}" --out "$tmp/the nodes" --slurm "$tmp/one.sh" --nodes 2
check "is the only task" grep -qx '#SBATCH --array=2' "$tmp/one.sh"
"$bin/cast_sweep" "$tmp/tiny.json" model.heads=2,3 train.steps=2 --out "$tmp/most" >/dev/null 2>&1
expect 0 'no script: the runs that are not done cannot be run' "runs of which the last cannot be" \
    "$bin/cast_sweep" "$tmp/tiny.json" model.heads=2,3 train.steps=2 --out "$tmp/most" --slurm "$tmp/none.sh" --nodes 2
check "no other is one" bash -c "SLURM_ARRAY_TASK_ID=1 '$tmp/one.sh'; [ \$? -eq 64 ]"

for ((i = 1; i <= 4; i++)); do
    "${sweep[@]}" train.steps=20 --out "$tmp/only" --only $i >"$tmp/log$i" 2>&1 &
    tasks[i]=$!
done
for ((i = 1; i <= 4; i++)); do
    wait "${tasks[i]}"
    result $? "run $i alone, beside the others, with no sweep.json yet" "$tmp/log$i"
done
expect 0 '4 runs, 4 done' "makes a sweep" "${sweep[@]}" train.steps=20 --out "$tmp/only" --dry-run

# As mpirun tells its processes which they are.
for i in 0 1 2; do
    OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=$i "${sweep[@]}" train.steps=20 --out "$tmp/ranks" >"$tmp/log$i" 2>&1 &
    tasks[i]=$!
done
for i in 0 1 2; do
    wait "${tasks[i]}"
    result $? "process $i of 3" "$tmp/log$i"
done
OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 "${sweep[@]}" train.steps=100000000 --out "$tmp/stopped" >"$tmp/log" 2>&1 &
pid=$!
until_lines "$tmp/stopped" 20 $pid
kill -TERM $pid
wait $pid && grep -q 'stopped after update [0-9]* of 100000000, which is saved' "$tmp/log"
result $? "one that is stopped ends none of the others" "$tmp/log"
expect 0 '4 runs, 4 done' "several processes make a sweep" "${sweep[@]}" train.steps=20 --out "$tmp/ranks" --dry-run
[ "$(grep -c '^run [0-9]' "$tmp/log0")" -eq 2 ] && [ "$(grep -c '^run 2 of 4' "$tmp/log1")" -eq 1 ]
result $? "each makes runs of its own" "$tmp/log0"

# ---- operations as the end ----

equal=("$bin/cast_sweep" "$tmp/tiny.json" train.steps=0 "model.attention.type=cast,full" --threads 1 --out "$tmp/equal")
gflop=$("$bin/cast_train" "$tmp/tiny.json" --dry-run --json --out "$tmp/none" 2>/dev/null |
    sed -nE 's/^ *"gflop_update": ([0-9.e-]+),?$/\1/p')
most=$(awk -v g="$gflop" 'BEGIN { print 40 * g / 1e6 }')
expect 0 '2 of 2 runs are done' "runs that operations end" "${equal[@]}" train.petaflops="$most"
# Its updates; their operations, and those of one, as a share of those that were asked for.
# shellcheck disable=SC2016
made() { # made TYPE
    local g
    g=$("$bin/cast_train" "$tmp/equal/type=$1" --dry-run --json 2>/dev/null |
        sed -nE 's/^ *"(updates|gflop_update)": ([0-9.e-]+),?$/\2/p' | xargs)
    awk -v p="$most" '{ one = $2 / 1e6 / p; print $1, $1 * one, one }' <<<"$g"
}
for type in cast full; do
    made $type >"$tmp/out"
    # shellcheck disable=SC2016
    check "$type has its share" awk '{ off = $2 - 1; exit !($1 > 0 && off <= $3 / 2 && off >= -$3 / 2) }' "$tmp/out"
done
check "of other numbers of updates" test "$(made cast | cut -d ' ' -f 1)" != "$(made full | cut -d ' ' -f 1)"
expect 0 '2 runs, 2 done' "are done" "${equal[@]}" train.petaflops="$most" --dry-run
expect 0 '2 runs, 2 begun' "and with more operations are not" "${equal[@]}" train.petaflops=1 --dry-run

# ---- a time as the end ----

timed=("$bin/cast_sweep" "$tmp/tiny.json" train.steps=100000000 "model.attention.clusters=2,3" --threads 1 --out "$tmp/timed")
expect 0 '2 of 2 runs are done' "runs that a time ends" "${timed[@]}" train.minutes=0.003
expect 0 '2 runs, 2 done' "are done" "${timed[@]}" train.minutes=0.003 --dry-run
expect 0 '2 runs, 2 begun' "and with more time are not" "${timed[@]}" train.minutes=1 --dry-run
