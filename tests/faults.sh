# Sourced by tests that let something fail in every program: what is run, on what, and how a run with a fault is judged.
# Needs $CAST_BIN, as training.sh does.
# shellcheck shell=bash
. tests/training.sh

# A run is a command in a directory of its own, $tmp/NAME. It begins with what $tmp/NAME.start holds; `outcome` says
# what it ended with, as far as that is the same each time.
declare -A commands=(
    [train]="cast_train tiny.json --out run --threads 1"
    [resume]="cast_train tiny.json --out run --threads 1"
    [threads]="cast_train tiny.json --out run --threads 2"
    [sweep]="cast_sweep tiny.json train.lr=1e-3,2e-3 train.steps=4 --out sweep --threads 1"
    [eval]="cast_eval run --predict test.csv --threads 1"
    [swap]="cast_eval run model.attention.type=full --json --threads 1"
    [table]="cast_report run"
    [page]="cast_report run --html page.html"
    [plot]="cast_report run --plot loss.svg"
    [init]="cast_train tiny.json train.init=run --out begun --threads 1"
    [export]="cast_export run --out made/m --python"
    [viz]="cast_viz run --index 1 --out pictures --threads 1"
    [stats]="cast_viz run --stats --threads 1"
    [listops]="cast_data generate listops --out made --tsv made --train 20 --val 5 --test 5 --threads 1"
    [pathfinder]="cast_data generate pathfinder --out made --png tree --train 8 --val 2 --test 2 --threads 1"
    [archive]="cast_data import text reviews.tar.gz --out made"
    [folders]="cast_data import text aclImdb --out made"
    [images]="cast_data import pathfinder tree --out made"
    [show]="cast_data show data --index 1"
    [verify]="cast_data verify data"
    [bench]="cast_bench tiny.json --seconds 0.01 --json --threads 1"
    [row]="cast_bench tiny.json --seconds 0.01 --json --mechanisms full --threads 1"
    [step]="cast_step tiny.json --weights w --batch b --out o --steps 2 --weights-out w2 --threads 1"
)
names=(train resume threads init sweep eval swap table page plot export viz stats listops pathfinder archive folders
    images show verify bench row step)

in_dir() { (cd "$tmp/$1" && shift && PATH=$bin:$PATH "$@"); }
begin() { rm -rf "${tmp:?}/$1" && cp -r "$tmp/$1.start" "$tmp/$1"; }
# The command of a run, after what is to be put before it.
run() { # run NAME [WORD...]
    local name=$1 words
    shift
    read -ra words <<<"${commands[$name]}"
    in_dir "$name" "$@" "${words[@]}" >"$tmp/$name.out" 2>"$tmp/$name.err" </dev/null
}

# But for those whose bytes hold times, places or speeds.
hashes() { # hashes NAME
    (cd "$tmp/$1" && find . -type f ! -name env.json ! -name metrics.jsonl ! -name '*tfevents*' ! -name lock \
        ! -name '*.checked' -print0 | sort -z | xargs -0 sha256sum)
}
# Lines of metrics, but for times.
lines() { # lines NAME
    local file
    find "$tmp/$1" -name metrics.jsonl | sort | while read -r file; do metrics_of "$(dirname "$file")"; done
}
# What cast_bench prints is left out too, but for how many lines it has.
outcome() { # outcome NAME
    case $1 in
    bench | row) wc -l <"$tmp/$1.out" ;;
    *) hashes "$1" && cat "$tmp/$1.out" ;;
    esac
}

make_reviews() {
    local part class i
    for part in train test; do
        for class in pos neg; do
            mkdir -p "$1/$part/$class"
            for i in 0 1 2 3 4 5; do echo "a review, $part $class $i" >"$1/$part/$class/${i}_9.txt"; done
        done
    done
}

make_batch() {
    local i bytes='' header
    for ((i = 0; i < 16; i++)); do put 4 $((i % 15)); done
    for i in 8 3 1 9; do put 4 "$i"; done
    header='{"tokens":{"dtype":"I32","shape":[2,8],"data_offsets":[0,64]},'
    header+='"lengths":{"dtype":"I32","shape":[2],"data_offsets":[64,72]},'
    header+='"labels":{"dtype":"I32","shape":[2],"data_offsets":[72,80]}}'
    put_file "$1" "$header"
}

# What runs begin with.
make_starts() {
    local name start=$tmp/start
    mkdir "$start"
    make_data "$start/data" listops 24 6 6 30
    cat >"$start/tiny.json" <<END
{ "task": "listops", "data": { "dir": "data" },
  "model": { "depth": 1, "heads": 2, "d": 8, "d_ff": 8, "d_emb": 8, "max_length": 30,
             "attention": { "clusters": 3 } },
  "train": { "steps": 20, "batch": 3, "lr": 5e-3, "log_every": 5, "eval_every": 10, "tensorboard": true } }
END
    for name in "${names[@]}"; do
        case $name in
        archive | folders | images) mkdir "$tmp/$name.start" ;;
        *) cp -r "$start" "$tmp/$name.start" ;;
        esac
    done
    mv "$start" "$tmp/make"
    {
        in_dir make cast_train tiny.json --out run --threads 1 --stop-at 13 && cp -r "$tmp/make/run" "$tmp/resume.start" &&
            in_dir make cast_train tiny.json --out run --threads 1 &&
            for name in init eval swap table page plot export viz stats; do cp -r "$tmp/make/run" "$tmp/$name.start"; done
        make_reviews "$tmp/folders.start/aclImdb"
        tar -C "$tmp/folders.start" -czf "$tmp/archive.start/reviews.tar.gz" aclImdb
        in_dir images.start cast_data generate pathfinder --out made --png tree --train 8 --val 2 --test 2 &&
            rm -r "$tmp/images.start/made"
        make_batch "$tmp/step.start/b"
        rm -r "$tmp/verify.start/data"
        in_dir verify.start cast_data generate listops --out data --train 9 --val 5 --test 5 --threads 1
        in_dir step.start cast_step tiny.json --init 1 --weights-out w
    } >"$tmp/log" 2>&1
    result $? "what programs are tried on" "$tmp/log"
    [ -z "${ONLY:-}" ] || read -ra names <<<"$ONLY"
    command -v gnuplot >/dev/null || leave_out plot "no gnuplot here"
}

leave_out() { # leave_out NAME REASON
    local name kept=()
    for name in "${names[@]}"; do [ "$name" = "$1" ] || kept+=("$name"); done
    names=("${kept[@]}")
    echo "ok - $1 # SKIP $2"
}

# The outcome without a fault.
make_want() { # make_want NAME
    begin "$1"
    run "$1"
    local status=$? dir
    outcome "$1" >"$tmp/$1.want"
    lines "$1" >"$tmp/$1.lines"
    for dir in "$1" "$1.start"; do (cd "$tmp/$dir" && find . -type f -exec sha256sum {} +); done >"$tmp/$1.known"
    [ $status -eq 0 ] || { echo "without a fault: status $status" && cat "$tmp/$1.err"; }
    return $status
}

# The crc32 that a safetensors file has of its data is that of the data.
sound_tensors() { # sound_tensors FILE
    local header stated
    header=$((8 + $(od -An -tu8 -N8 "$1")))
    stated=$(head -c $header "$1" | grep -aoE '"crc32":"[0-9a-f]{8}' | tail -c 9)
    [ "$stated" = "$(tail -c +$((header + 1)) "$1" | gzip -c | tail -c 8 | od -An -tx4 -N4 | tr -d ' ')" ]
}

# Names a file that is not whole: none of the start or of the end, and not sound by itself. Locks of a process that was
# killed may stay until the next one comes; in the end .lock is gone, or `hashes` has it.
half_written() { # half_written NAME
    local file
    (cd "$tmp/$1" && find . -type f ! -name lock ! -name .lock ! -name '*tfevents*' ! -name '*.checked' \
        ! -name '*.tmp.*' -print0 |
        xargs -0 -r sha256sum) |
        grep -vxFf "$tmp/$1.known" | while read -r _ file; do
        case $file in
        *.safetensors) sound_tensors "$tmp/$1/$file" ;;
        *.json) [ "$(tail -c 2 "$tmp/$1/$file")" = '}' ] ;;
        *.jsonl) ! grep -qvE '^\{.*\}$' "$tmp/$1/$file" ;;
        *) false ;;
        esac || echo "${file#./}"
    done | head -n 1
}

# What the run just made came to, in a word: `same` for status 0 and the outcome that is wanted, else its status;
# `WRONG: ...` for what must never be.
judge() { # judge NAME STATUS
    local name=$1 status=$2 half
    half=$(half_written "$name")
    outcome "$name" >"$tmp/$name.got"
    if grep -q 'this is a bug' "$tmp/$name.err"; then
        echo "WRONG: $(grep -h 'this is a bug' "$tmp/$name.err")"
    elif [ "$status" -eq 0 ] && cmp -s "$tmp/$name.want" "$tmp/$name.got"; then
        if lines "$name" | cmp -s "$tmp/$name.lines" -; then echo same; else echo "WRONG: lines of metrics are lost"; fi
    elif [ "$status" -eq 0 ]; then
        echo "WRONG: status 0 with another outcome: $(diff "$tmp/$name.want" "$tmp/$name.got" | grep '^[<>]' | head -n 2)"
    elif [ "$status" -ge 124 ]; then
        echo "WRONG: status $status: $(tail -n 1 "$tmp/$name.err")"
    elif [ "$half" ]; then
        echo "WRONG: $half is half-written"
    else
        echo "$status"
    fi
}

# Of a run with a checkpoint: what was just started goes on from it.
resumed() { # resumed NAME
    grep -qsE 'resuming at update [1-9]' "$tmp/$1.out" "$tmp/$1.err"
}

# The same command without a fault, where the one before it left off, must end with the same.
goes_on() { # goes_on NAME
    local status told
    told=$(grep -c 'lines are lost' "$tmp/$1.err")
    run "$1"
    status=$?
    [ "$1" != resume ] || resumed "$1" || echo "WRONG: the next start begins anew"
    if outcome "$1" | cmp -s "$tmp/$1.want" - && [ $status -eq 0 ]; then
        [ "$told" -gt 0 ] || lines "$1" | cmp -s "$tmp/$1.lines" - || echo "WRONG: lines of metrics are lost, and nothing tells"
        return
    fi
    outcome "$1" | diff "$tmp/$1.want" - | grep '^[<>]' | head -n 2
    echo "WRONG: the next start ends with status $status: $(tail -n 1 "$tmp/$1.err")"
}

# How many faults came to what, and what is wrong.
verdicts() { # verdicts NAME
    local file=$tmp/$1.verdicts
    echo "$(wc -l <"$tmp/$1.numbers") faults of $(wc -l <"$tmp/$1.places"): $(grep -E '^[0-9a-z]+$' "$file" | sort | uniq -c |
        awk '{ printf "%s%d %s", (NR > 1 ? ", " : ""), $1, $2 }')"
    grep -vE '^[0-9a-z]+$' "$file"
    grep -qvx unmet "$file" && ! grep -qvE '^[0-9a-z]+$' "$file" && [ -s "$tmp/$1.numbers" ]
}

# COMMAND NAME for each run, as many at a time as there are cores; it prints figures, and succeeds or does not.
each_run() { # each_run COMMAND WHAT
    local name most
    most=$(scripts/processors.sh)
    for name in "${names[@]}"; do
        while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n; done
        { "$1" "$name" >"$tmp/$name.result" 2>&1 && touch "$tmp/$name.passed"; } &
    done
    wait
    for name in "${names[@]}"; do
        test -e "$tmp/$name.passed"
        result $? "$2 $name: $(head -n 1 "$tmp/$name.result")" "$tmp/$name.result"
    done
}
