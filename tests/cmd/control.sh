#!/bin/bash
# Names of directories, values of configs and metadata of data that hold control characters drive no terminal: what
# programs print and write holds none of them, in no format.
set -u
. tests/training.sh
nasty=$'e\e[31m\xc2\x9b32m\x9b33m\a\x7f' # ESC, U+009B, a byte that is no UTF-8, BEL, DEL
json='e\u001b[31m\u009b32m\u0007\u007f' # the same in JSON
home=$tmp/$nasty
mkdir "$home"
make_data "$home/data" listops 40 9 9 60
make_data "$home/text" text 12 6 6 60
cat >"$home/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/$json/data" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "log_every": 5 } }
END
ln -s "$home/data" "$tmp/data"
# The name in JSON has no byte that is no UTF-8: what it says is another.
valid=$'e\e[31m\xc2\x9b32m\a\x7f'
ln -s "$home" "$tmp/$valid"

# Whether files hold text alone: UTF-8 without control characters but newline, tab (in JSON and pages) and the carriage
# return of CSV.
is_text() {
    local file
    for file; do
        iconv -f utf-8 -t utf-8 "$file" >/dev/null 2>&1 || { echo "$file is not UTF-8" | tr -c '[:print:]\n' '?'; return 1; }
        ! LC_ALL=C tr -d '\n\t\r' <"$file" | LC_ALL=C grep -qaP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]' ||
            { echo "$file" | cat -v; LC_ALL=C tr -d '\n\t\r' <"$file" | LC_ALL=C grep -aoP '.{0,20}([\x00-\x1f\x7f]|\xc2[\x80-\x9f])' | cat -v | head -3; return 1; }
    done
}
printf 'plain\n' >"$tmp/plain"
check "text is text" is_text "$tmp/plain"
for bad in '\033[31m' '\302\233' '\177' '\377'; do
    printf 'a%b' "$bad" >"$tmp/plain"
    check "a$bad is none" eval "! is_text '$tmp/plain'"
done
clean() { # clean STATUS NAME COMMAND...: what it prints is text alone
    local want=$1 name=$2 status
    shift 2
    "$@" >"$tmp/printed" 2>&1
    status=$?
    { [ $status -eq "$want" ] || echo "exit status $status; expected $want"; } >"$tmp/why"
    is_text "$tmp/printed" >>"$tmp/why"
    [ ! -s "$tmp/why" ] || head -c 2000 "$tmp/printed" | cat -v >>"$tmp/why"
    result "$([ -s "$tmp/why" ] && echo 1 || echo 0)" "$name" "$tmp/why"
}

# ---- training ----

run=$home/run
clean 0 "cast_train" "$bin/cast_train" "$home/tiny.json" --out "$run" train.eval_every=5
clean 0 "going on" "$bin/cast_train" "$home/tiny.json" --out "$run" train.eval_every=5
clean 0 "a dry run" "$bin/cast_train" "$home/tiny.json" --out "$run" --dry-run
clean 0 "how to go on" "$bin/cast_train" "$home/tiny.json" --out "$home/stopped" --stop-at 5
again=$(grep -a '^to go on: ' "$tmp/printed")
clean 0 "goes on" bash -c "${again#to go on: }"
check "where it was" grep -q 'resuming at update 5' "$tmp/printed"
check "its directory" is_text "$run/config.json" "$run/env.json" "$run/metrics.jsonl"
clean 78 "another config" "$bin/cast_train" "$home/tiny.json" --out "$run" train.lr=1
clean 64 "a key that is no text" "$bin/cast_train" "$home/tiny.json" "train.$nasty=1"
clean 78 "a key" "$bin/cast_train" "$home/tiny.json" "train.$valid=1"
sed "s/\"steps\"/\"${json//\\/\\\\}\"/" "$home/tiny.json" >"$home/key.json"
clean 78 "a key in a file" "$bin/cast_train" "$home/key.json"
check "which it is" grep -q 'train.e?.31m?32m??. is unknown' "$tmp/printed"
clean 78 "a value" "$bin/cast_train" "$home/tiny.json" "train.schedule=\"$json\""
clean 78 "a task" "$bin/cast_train" "$home/tiny.json" "task=\"$json\""
clean 66 "a file that is not there" "$bin/cast_train" "$home/nowhere.json"
clean 64 "an option" "$bin/cast_train" "--$nasty"
clean 0 "data elsewhere" "$bin/cast_train" "$home/tiny.json" --out "$run" train.eval_every=5 data.dir="$tmp/data"

# ---- a trained model ----

clean 0 "cast_eval" "$bin/cast_eval" "$run" --predict "$home/test.csv"
check "its predictions" is_text "$home/test.csv"
clean 0 "as JSON" "$bin/cast_eval" "$run" --json
clean 0 "of a checkpoint" "$bin/cast_eval" "$run/last.safetensors" model.attention.type=full
clean 66 "of none" "$bin/cast_eval" "$home/data"
clean 0 "cast_viz" "$bin/cast_viz" "$run" --index 3
check "its page" is_text "$run/viz-3.html"
clean 0 "figures" "$bin/cast_viz" "$run" --stats
clean 0 "as JSON" "$bin/cast_viz" "$run" --stats --json
clean 0 "cast_export" "$bin/cast_export" "$run" --out "$home/$nasty"
check "its card" is_text "$home/$nasty.md"
clean 0 "a run from what it wrote" \
    "$bin/cast_train" "$home/tiny.json" --out "$home/third" train.init="$tmp/$valid/run" --dry-run
clean 0 "cast_step" "$bin/cast_step" "$home/tiny.json" --init 1 --weights-out "$home/w"
clean 66 "without a batch" "$bin/cast_step" "$home/tiny.json" --weights "$home/w" --batch "$home/nowhere" --out "$home/o"

# ---- reports ----

make_twin() { # of the run, with such values in what a report shows
    cp -r "$run" "$home/twin"
    sed -i "s/\"version\": \"[^\"]*\"/\"version\": \"$json\"/; s/\"cpu\": \"[^\"]*\"/\"cpu\": \"=$json\"/" "$home/twin/env.json"
    sed -i "s/\"schedule\": \"[^\"]*\"/\"schedule\": \"$json\"/; s/\"seed\": 1/\"seed\": 2/" "$home/twin/config.json"
    printf '<p>\e[31m\xc2\x9b32m\x9b</p>' >"$home/twin/viz-4.html"
    echo "$nasty" >"$home/twin/viz-$nasty.png"
}
make_twin
report=("$bin/cast_report" "$home")
for format in md latex csv; do
    clean 0 "cast_report: $format" "${report[@]}" --format $format
    clean 0 "$format, each run" "${report[@]}" --format $format --each
done
clean 0 "published figures" "${report[@]}" --papers
clean 0 "a page" "${report[@]}" --each --html "$home/page.html"
check "itself" is_text "$home/page.html"
if command -v gnuplot >/dev/null; then
    clean 0 "a plot" "${report[@]}" --each --plot "$home/plot.svg" --keep
    check "itself, and its script" is_text "$home/plot.svg" "$home/plot.svg.gnuplot"
else
    echo "ok - # SKIP no gnuplot: a plot"
fi
printf '{"mechanism": "%s", "tokens": 512, "samples_per_s": 8, "peak_rss_mb": 20}\n' "$json" >"$home/bench.jsonl"
for format in md latex csv; do
    clean 0 "lengths: $format" "$bin/cast_report" "$home/bench.jsonl" --what length --format $format
done
clean 65 "a file that is none" "$bin/cast_report" "$home/tiny.json" --what length
clean 0 "cast_bench" "$bin/cast_bench" "$home/tiny.json" --seconds 0.01 --mechanisms "cast,full" --threads 1
clean 64 "a mechanism" "$bin/cast_bench" "$home/tiny.json" --seconds 0.01 --mechanisms "$nasty" --threads 1

# ---- sweeps ----

clean 0 "cast_sweep" "$bin/cast_sweep" "$home/tiny.json" "data.dir=\"$tmp/$json/data\",\"$tmp/data\"" --out "$home/sweep" --threads 1
check "its record" is_text "$home/sweep/sweep.json"
clean 0 "a job script" "$bin/cast_sweep" "$home/tiny.json" train.lr=1e-3,1e-2 --out "$home/sweep2" --slurm "$home/job.sh"
check "itself" is_text "$home/job.sh"
check "which names what is there" bash -c "cd / && bash -n '$home/job.sh' && SLURM_ARRAY_TASK_ID=1 bash '$home/job.sh'"

# ---- data ----

clean 0 "cast_data show" "$bin/cast_data" show "$home/data"
clean 0 "an example" "$bin/cast_data" show "$home/text" --index 1
clean 0 "verify" "$bin/cast_data" verify "$home/text"
clean 65 "a label that is wrong" "$bin/cast_data" verify "$home/data"
mkdir "$home/odd"
for split in train val test; do
    make_split "$home/odd/$split.safetensors" "$json" 9 20 1
done
clean 0 "a task that is none" "$bin/cast_data" show "$home/odd"
clean 0 "and verified" "$bin/cast_data" verify "$home/odd"
clean 66 "nothing to import" "$bin/cast_data" import text "$home" --out "$home/imported"
clean 64 "no such task" "$bin/cast_data" import "$nasty" "$home" --out "$home/imported"
mkdir "$home/papers"
for split in train eval test; do
    printf '1\t%s\tb\ttext\ttext\n' "$nasty" >"$home/papers/new_aan_pairs.$split.tsv"
done
clean 65 "a paper's id" "$bin/cast_data" import retrieval "$home/papers" --out "$home/imported"
for split in train eval test; do
    printf '1\ta\tb\t%s\t%s\n' "$nasty" "$nasty=" >"$home/papers/new_aan_pairs.$split.tsv"
done
clean 0 "papers" "$bin/cast_data" import retrieval "$home/papers" --out "$home/imported"
clean 0 "their bytes" "$bin/cast_data" show "$home/imported"
check "with what these stand for" grep -qE '^  28 [\]x1b +[0-9]' "$tmp/printed"
clean 0 "their texts" "$bin/cast_data" show "$home/imported" --index 0
check "as they are" grep -qF 'e\x1b[31m\xc2\x9b32m\x9b33m\x07\x7f' "$tmp/printed"
