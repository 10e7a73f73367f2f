#!/bin/bash
# cast_report from outside: tables, plots and pages of runs that are whole, unfinished, damaged and oddly named.
set -u
. tests/training.sh
report=$bin/cast_report

config() { # config CLUSTERS SEED
    cat <<END
{ "task": "listops", "data": { "dir": "data/listops" },
  "model": { "depth": 1, "heads": 2, "d": 16, "d_ff": 16, "d_emb": 16, "max_length": 64,
             "attention": { "type": "cast", "mechanism": "topk", "clusters": $1 } },
  "train": { "steps": 20, "batch": 4, "seed": $2 } }
END
}

metrics() { # metrics LAST_UPDATE ACCURACY: with its test where that is the end
    local step which
    for step in 5 10 15 20; do
        [ "$step" -le "$1" ] || return
        printf '{"kind": "train", "step": %d, "epoch": %d, "loss": 2.%d, "accuracy": 0.2, "samples_per_s": 10, ' \
            $step $((step / 5)) $((90 - step))
        printf '"tokens_per_s": 500, "seconds": %d, "rss_mb": 12.5}\n' $((step / 5))
        printf '{"kind": "val", "step": %d, "epoch": %d, "accuracy": %s, "loss": 2.1}\n' $step $((step / 5)) "$2"
    done
    for which in last best; do
        printf '{"kind": "test", "step": 20, "epoch": 4, "which": "%s", "accuracy": %s, "loss": 2.1}\n' $which "$2"
    done
}

make_run() { # make_run DIR CLUSTERS SEED LAST_UPDATE ACCURACY
    mkdir -p "$1"
    config "$2" "$3" >"$1/config.json"
    metrics "$4" "$5" >"$1/metrics.jsonl"
    echo '{ "version": "0.1.0", "threads": 1 }' >"$1/env.json"
}

make_run "$tmp/sweep/a1" 4 1 20 0.50
make_run "$tmp/sweep/a2" 4 2 20 0.25
make_run "$tmp/sweep/more/a3" 4 3 10 0.75
make_run "$tmp/sweep/b" 8 1 20 0.60

# ---- tables ----

expect 0 '^usage: cast_report' "help" "$report" --help
expect 0 '^cast_report [0-9.]+$' "version" "$report" --version
expect 0 '^\| a1 and 2 more \| listops \| +4 \| +2 of 3 \| +37.50 ± 17.68 \| +37.50 ± 17.68 \| +37.50 ± 17.68 \| +75.00 \| +[0-9]+ \|' \
    "a row a config: mean, deviation, and what is not finished" "$report" "$tmp/sweep"
check "and a row for the other" grep -qE '^\| b +\| listops \| +8 \| +1 of 1 \| +60.00 \| +60.00 \| +60.00 \| +- \|' "$tmp/out"
# shellcheck disable=SC2016
expect 0 '^a1 and 2 more & listops & 4 & 2 of 3 & \$37.50 .pm 17.68\$' "LaTeX" "$report" "$tmp/sweep" --format latex
expect 0 '^a1 and 2 more,listops,4,2,3,37.5,17.67766953,37.5,17.67766953,37.5,17.67766953,75,,[0-9]+,[0-9.]+,20,12.5,.*,.*' "CSV" \
    "$report" "$tmp/sweep" --format csv
check "whose lines end as RFC 4180 has it" test "$(grep -c $'\r$' "$tmp/out")" = 3
expect 0 "^\| $tmp/sweep/more/a3 " "each run by itself" "$report" "$tmp/sweep" --each
expect 0 '^\| b +\| listops \| +1 of 1 \|' "a run named twice counts once" "$report" "$tmp/sweep/b" "$tmp/sweep/b/"
expect 0 '^\| ours: cast topk +\| +37.50 ± 17.68 \| +- \| .* finished: ListOps 2 of 3' "ours beside the papers'" \
    "$report" "$tmp/sweep" --papers
check "of the best weights and of the last" grep -qE '^\| ours: cast topk, last +\| +37.50 ± 17.68 ' "$tmp/out"
check "and which they are, not those of one seed" has_line 'ours: cast topk: ListOps clusters 4, of 2 configs'
check "which are there" grep -qE '^\| Transformer +\| +36.37 \|.* 54.39 \| +53.66 \| Tay' "$tmp/out"
expect 64 'papers shows means over seeds' "which are means" "$report" "$tmp/sweep" --papers --each

# ---- what a mean over seeds does not say ----

# Always the same answer has 17 % of ListOps; of 2,000 examples two standard errors are 1.68.
for run in 1:0.1867 2:0.1868 3:0.60; do
    make_run "$tmp/stuck/${run%:*}" 4 ${run%:*} 20 ${run#*:}
    sed -i 's/"which": /"count": 2000, &/' "$tmp/stuck/${run%:*}/metrics.jsonl"
done
expect 0 ',listops,3,3,1,3,32.45' "runs at chance are counted" "$report" "$tmp/stuck" --format csv
sed -i 's/0.1867/0.1868/' "$tmp/stuck/1/metrics.jsonl"
expect 0 ',listops,3,3,32.4' "and are no column where there are none" "$report" "$tmp/stuck" --format csv
sed -i '/"which": "best"/s/0.1868/0.1/' "$tmp/stuck/1/metrics.jsonl"
expect 0 ',listops,3,3,1,3,' "whose test counts, and no validation" "$report" "$tmp/stuck" --format csv
sed -i '/"which": "best"/s/"count": 2000/"count": 1000/; /"which": "best"/s/0.1,/0.171,/' "$tmp/stuck/1/metrics.jsonl"
expect 0 ',listops,1,1,1,1,18.68,,17.1,' "of half of the examples 17 % are chance as well" "$report" "$tmp/stuck/1" --format csv
sed -i '/"which": "best"/s/"count": 1000/"count": 2000/; /"which": "best"/s/0.171,/0.1,/' "$tmp/stuck/1/metrics.jsonl"
echo '{ "data": { "source": "generated (tokens 16 to 128)" } }' >"$tmp/stuck/1/env.json"
sed -i '/"which": "best"/s/0.1/0.12/' "$tmp/stuck/1/metrics.jsonl"
expect 0 ',listops,1,1,18.68,,12,' "of shorter ones a tenth is chance" "$report" "$tmp/stuck/1" --format csv
make_run "$tmp/stuck/1" 4 1 10 0.60
sed -i 's/"kind": "val"/"count": 500, &/' "$tmp/stuck/1/metrics.jsonl"
sed -i '/"kind": "val", "step": 10/s/0.60/0.10/' "$tmp/stuck/1/metrics.jsonl"
expect 0 ',0,1,1,1,' "without a test the last validation counts" "$report" "$tmp/stuck/1" --format csv
for holdout in 0 0.1; do
    cp -r "$tmp/sweep/b" "$tmp/chosen-$holdout"
    sed -i 's/"listops"/"text"/; s/"data": {/&"holdout": '$holdout', /' "$tmp/chosen-$holdout/config.json"
done
expect 0 '^data.holdout=0: the test set validated' "weights that the test set chose are told" "$report" "$tmp/chosen-0"
check "not below what it is not of" test "$("$report" "$tmp/chosen-0" --columns task,hours | grep -c '^data.holdout')" = 0
expect 0 '^data.holdout=0: the test set validated' "beside others too" "$report" "$tmp/chosen-0.1" "$tmp/chosen-0" --compare
"$report" "$tmp/chosen-0.1" >"$tmp/out"
check "and no others" bash -c "! grep -q '^data.holdout=0' '$tmp/out' && grep -q ' text ' '$tmp/out'"

# Runs of one task on other machines: env.json of the second, and whether that is told.
machines() { # machines NAME ENV PATTERN [TASK]
    cp -r "$tmp/chosen-0.1" "$tmp/machine"
    sed -i "s/\"seed\": 1/\"seed\": 2/; s/\"text\"/\"${4-text}\"/" "$tmp/machine/config.json"
    echo "$2" >"$tmp/machine/env.json"
    echo '{ "cpu": "A", "threads": 2 }' >"$tmp/chosen-0.1/env.json"
    expect 0 "$3" "$1" "$report" "$tmp/chosen-0.1" "$tmp/machine"
    check "not without columns of it" test "$("$report" "$tmp/chosen-0.1" "$tmp/machine" --columns task | grep -c '^machines: runs')" = 0
    check "once, if at all" test "$(grep -c '^machines:' "$tmp/out")" = "$(grep -c '^.machines' <<<"$3")"
    rm -r "$tmp/machine"
}
table='^[|] .* text '
machines "the same machine" '{ "cpu": "A", "threads": 2, "ranks": 1 }' "$table"
machines "one that is not told" '{ }' "$table"
machines "another of another task" '{ "cpu": "B", "threads": 2 }' "$table" listops
other='^machines: runs of one task have other processors, threads or ranks'
machines "other processors are told" '{ "cpu": "B", "threads": 2 }' "$other"
machines "other threads" '{ "cpu": "A", "threads": 4 }' "$other"
machines "more ranks" '{ "cpu": "A", "threads": 2, "ranks": 2 }' "$other"
machines "a run that went on elsewhere" '{ "cpu": "A", "threads": 2, "earlier": [{ "cpu": "B" }] }' "$other"
sed -i 's/"train": {/&"minutes": 1, "schedule": "constant", /' "$tmp/chosen-0.1/config.json"
machines "more so where minutes are the budget" '{ "cpu": "B" }' '^machines: of equal minutes, but not of equal machines: '
machines "equal minutes of equal machines" '{ "cpu": "A" }' "$table"
cp -r "$tmp/chosen-0.1" "$tmp/timed"
sed -i 's/"clusters": 8/"clusters": 4/' "$tmp/timed/config.json"
echo '{ "cpu": "A", "threads": 1 }' >"$tmp/timed/env.json"
expect 0 '^machines: of equal minutes, but not of' "beside others too" "$report" "$tmp/chosen-0.1" "$tmp/timed" --compare

# ---- some columns, and lines of a terminal ----

expect 0 '^\| clusters \| test of best, % \|' "columns by name" "$report" "$tmp/sweep" --columns clusters,test_best_percent
expect 0 '^test_best_percent +test of best, %' "their list" "$report" "$tmp/sweep" --columns help
check "keys of the config among them" grep -qE '^model.attention.cluster_size +cluster_size$' "$tmp/out"
expect 0 '^\| clusters \| cluster_size \| depth \|' "any of them, though it differs nowhere" \
    "$report" "$tmp/sweep" --columns clusters,cluster_size,model.depth
rows() { # rows ARGUMENT...: each row's first column
    "$report" "$@" 2>"$tmp/log" | sed -n 's/^| *\([^ |]*\).*/\1/p' | tail -n +3 | paste -sd,
}
check "rows as they were" test "$(rows "$tmp/sweep" --each)" = "$(echo "$tmp"/sweep/{a1,a2,more/a3,b} | tr ' ' ,)"
check "the best first" test "$(rows "$tmp/sweep" --sort test_best_percent)" = b,a1
check "the last without a value" test "$(rows "$tmp/sweep" --each --sort 'test of best, %')" = "$(echo "$tmp"/sweep/{b,a1,a2,more/a3} | tr ' ' ,)"
check "by what is not shown" test "$(rows "$tmp/sweep" --each --sort test_best_percent --columns seed)" = 1,1,2,3
check "by a key that does not differ between rows" test "$(rows "$tmp/sweep" --each --sort train.seed)" = \
    "$(echo "$tmp"/sweep/{a1,b,a2,more/a3} | tr ' ' ,)"
check "which is no column for that" test "$(grep -c seed "$tmp/log")" = 0
expect 0 '^b,listops' "in CSV" "$report" "$tmp/sweep" --sort test_best_percent --format csv
check "at the top" test "$(sed -n 2s/,.*//p "$tmp/out")" = b
expect 64 "sort: the table has no column 'finishde'; did you mean 'finished'; --columns help" "by no column" \
    "$report" "$tmp/sweep" --sort finishde --columns clusters
expect 64 'sort is of a table' "a plot's rows" "$report" "$tmp/sweep" --sort run --plot "$tmp/list.svg"

# What stands below a table is of what it shows.
notes() { # notes COLUMNS WORD...: those, and no others
    local words='validation: GFLOP/sample: memory.MB: samples/s, ±: unfinished:' word
    "$report" "$tmp/sweep" --columns "$1" >"$tmp/out" || return
    for word in $words; do
        case " ${*:2} " in *" $word "*) grep -v '^|' "$tmp/out" | grep -qF "${word/./ }" || return ;;
            *) grep -v '^|' "$tmp/out" | grep -qF "${word/./ }" && return 1 ;; esac
    done
    return 0
}
check "no notes on what is not shown" notes clusters
check "a deviation and what chose" notes test_best_percent validation: ±:
check "operations" notes clusters,gflop_per_sample GFLOP/sample:
check "speed" notes hours samples/s,
check "memory" notes memory_mb memory.MB: samples/s,
check "what is not done" notes unfinished_validation_percent unfinished:
check "all of them in one paragraph" test "$("$report" "$tmp/sweep" | grep -c '^validation: .* GFLOP/sample: .* memory MB: .* hours: means over all runs.$')" = 1
expect 64 "no column .test_best_percnt.; did you mean .test_best_percent.; --columns help" "a column that is none" \
    "$report" "$tmp/sweep" --columns test_best_percnt
expect 0 '^not shown: task; finished' "what a line has no room for is left out" env COLUMNS=60 "$report" "$tmp/sweep" --format terminal
check "and no line is longer" test "$(LC_ALL=C.UTF-8 wc -L <"$tmp/out")" -le 60
check "nor has blanks at its end" test "$(grep -c ' $' "$tmp/out")" = 0
# shellcheck disable=SC2016
expect 0 '^a1 and 2 more & \$37.50 .pm 17.68\$' "LaTeX in a float" "$report" "$tmp/sweep" --format latex --columns run,test_best_percent \
    --caption 'At 100 %' --label tab:a
check "with a caption and a label" grep -qF -e '\caption{At 100 \%}' "$tmp/out"
check "without a warning" test "$(grep -c warning "$tmp/out")" = 0
expect 0 'warning: the table is about [0-9]+ mm wide.*room for 86: without .*: --columns run,test_best_percent' "a table wider than its page" \
    "$report" "$tmp/sweep" --format latex
expect 64 'means something to LaTeX' "a label that ends its line" "$report" "$tmp/sweep" --format latex --label 'tab:50%'
expect 64 'caption is of --format latex' "a caption of no LaTeX" "$report" "$tmp/sweep" --caption x
expect 64 'width is of --plot and of --format latex' "a width of neither" "$report" "$tmp/sweep" --width 80
expect 64 'width: expected 20 to 2000 millimetres' "a width of nothing" "$report" "$tmp/sweep" --plot "$tmp/x.svg" --width 0.05
expect 0 '^[|] test of best, % [|] test of last, % [|]$' "columns by their titles" "$report" "$tmp/sweep" --columns 'test of best, %, test of last, %'
expect 0 'test of last' "chosen ones are all shown" env COLUMNS=20 "$report" "$tmp/sweep" --format terminal --columns test_best_percent,test_last_percent
expect 64 'columns is of a table' "columns of a page" "$report" "$tmp/sweep" --columns run --plot "$tmp/list.svg"
expect 0 '^.begin.table[*].$' "both columns of a page, without a caption too" "$report" "$tmp/sweep" --format latex --across
expect 64 'across is of --format latex' "both columns of no page" "$report" "$tmp/sweep" --across
expect 64 'what growth takes no --html' "a page of no runs" "$report" "$tmp/sweep" --what growth --html "$tmp/list.html"
expect 64 'goes without' "a list, and a page" "$report" "$tmp/sweep" --columns help --html "$tmp/list.html"
check "which is not made" test ! -e "$tmp/list.html"
expect 64 'height is of --plot' "a height of no plot" "$report" "$tmp/sweep" --height 80

# ---- marks, from the data's source to the cell ----

small=(train.steps=1 train.batch=2 model.d=8 model.d_emb=8 model.d_ff=8)
trained() { # trained NAME TASK [key=value...]: on a generated set, a small one
    [ -d "$tmp/made/$2" ] || "$bin/cast_data" generate "$2" --train 4 --val 2 --test 2 --out "$tmp/made/$2" >"$tmp/log" 2>&1
    echo "{ \"task\": \"$2\", \"data\": { \"dir\": \"$tmp/made/$2\" } }" >"$tmp/marks.json"
    "$bin/cast_train" "$tmp/marks.json" "${small[@]}" "${@:3}" --out "$tmp/marks/$1" >"$tmp/log" 2>&1
}
for task in listops pathfinder pathx; do check "a run of $task" trained $task $task; done
check "a run of weights of another" trained more listops train.init="$tmp/marks/listops"
number='[0-9]+[.][0-9]{2}'
expect 0 "^[|] ours: cast topk +[|] +$number \[DG\] [|] +- [|] +- [|] +- [|] +$number \[DG\] [|] +$number \[DG\] [|] +- [|] +- [|]" \
    "marked as generated, and of a small test set" "$report" "$tmp/marks" --papers
check "with extras" grep -qE "^[|] ours: cast topk, with extras +[|] +$number \[DPG\] [|].* not run [|]" "$tmp/out"
check "explained below" grep -qE '^D: .*P: pretrained.*G: generated.*Left out of the means: DP' "$tmp/out"

# ---- what is no run, and odd names ----

odd="$tmp/odd/a|b&c_d%<i>\`id\`\$x'q\""
make_run "$odd" 4 1 20 0.50
printf '{"kind": "tra' >>"$odd/metrics.jsonl"
mkdir -p "$tmp/odd/empty" "$tmp/odd/half" "$tmp/odd/other"
echo '{ "task": ' >"$tmp/odd/half/config.json"
echo '{ "task": "juggling" }' >"$tmp/odd/other/config.json"
expect 0 'odd/empty: no run there' "an empty directory is told" "$report" "$tmp/odd" --each
for said in 'odd/half/config.json:.*left out' 'metrics.jsonl: 1 damaged line left out' 'other/config.json: key .task.*juggling'; do
    check "as is $said" grep -q "$said" "$tmp/out"
done
check "no name breaks a row" test "$(grep '^|' "$tmp/out" | sed 's/\\|//g' | tr -cd '|\n' | sort -u | wc -l)" = 1
# shellcheck disable=SC2016 # backquotes and dollars as they are in the name
check "or means anything in it" grep -qF 'a\|b&amp;c_d%&lt;i&gt;\`id\`\$x' "$tmp/out"
expect 0 'a.textbar\{\}b.&c._d.%.textless\{\}i' "nor in LaTeX" "$report" "$tmp/odd" --each --format latex
expect 66 'neither a run.s directory .* nor one of them' "no run is left" "$report" "$tmp/odd/empty"
expect 66 'nowhere: no such directory' "a directory that is not there" "$report" "$tmp/nowhere"
expect 66 'is a file' "a file" "$report" README.md
expect 64 'no RUN' "no run" "$report"
expect 64 "expected md, latex, csv or terminal, got 'pdf'" "a format that is none" "$report" "$tmp/sweep" --format pdf
expect 64 'ends in .svg, .png or .pdf' "a picture that is none" "$report" "$tmp/sweep" --plot "$tmp/x.gif"
expect 64 '[-]-what is of --plot' "an option of another's" "$report" "$tmp/sweep" --what loss
[ ! -e /dev/full ] || expect 74 'standard output' "a full disk" bash -c "'$report' '$tmp/sweep' >/dev/full"

# ---- plots, by a program that only says what it was given ----

mkdir -p "$tmp/bin" "$tmp/none"
cat >"$tmp/bin/gnuplot" <<'END'
#!/bin/sh
while IFS= read -r line; do
    case $line in
    *fail*) echo 'line 1: it fails' >&2; exit 1 ;;
    *pdfcairo*) printf '%%PDF-1.5\n' && end='%%%%EOF' ;;
    *pngcairo*) printf '\211PNG\r\n\032\n' && end='IEND\256B`\202' ;;
    esac
done
printf '<?xml version="1.0"?><svg id="a"><title>Gnuplot</title><path stroke="rgb(0,0,0)"/><use href='"'#a'"'/>'
printf "${CUT-${end-</svg>\\n}}"
END
chmod +x "$tmp/bin/gnuplot"
with() { PATH=$tmp/bin:$PATH "$report" "$@"; }
check "a plot" with "$tmp/sweep" --plot "$tmp/loss.svg" --keep
check "is what gnuplot drew" grep -q '<svg id="a">' "$tmp/loss.svg"
check "from a script with mean and band" grep -qE '^5 2.85 2.85 2.85$' "$tmp/loss.svg.gnuplot"
check "with numbers of its own on its axis" grep -q "^set xtics ('0' 0, '2' 2, '4' 4, " "$tmp/loss.svg.gnuplot"
check "broken where a run ends" grep -qx '' "$tmp/loss.svg.gnuplot"
check "and a name for each line" grep -q 'title "clusters 4 (3 runs)"' "$tmp/loss.svg.gnuplot"
check "over time" with "$tmp/sweep" --plot "$tmp/time.png" --what accuracy --x time --band sd --keep
check "in seconds, to PNG" grep -q 'seconds of training' "$tmp/time.png.gnuplot"
for seed in 1 2; do
    make_run "$tmp/brief/$seed" 4 $seed 20 0.5
    sed -i "1!{/train/d};1s/\"seconds\": [0-9]*/\"seconds\": $seed/" "$tmp/brief/$seed/metrics.jsonl"
done
check "runs of a line each" with "$tmp/brief" --plot "$tmp/brief.svg" --what accuracy --x time --keep
check "are one point" test "$(sed -n '/^[$]train0/,/^END/p' "$tmp/brief.svg.gnuplot" | grep -c '^1.5 20 ')" = 1
check "which is seen" grep -q 'linespoints pt 1' "$tmp/brief.svg.gnuplot"
check "as PDF of a size" with "$tmp/sweep" --plot "$tmp/loss.pdf" --width 84 --height 60 --keep
check "which gnuplot is told" grep -q '^set terminal pdfcairo .* size 8.4cm,6cm fontscale 0.571' "$tmp/loss.pdf.gnuplot"
check "lines and points differ without colours" \
    test "$(grep -oE 'with (lines|points) .*' "$tmp/loss.pdf.gnuplot" | grep -oE ' (dt|pt) [0-9]+' | sort -u | wc -l)" -ge 4
expect 0 '^[|] Transformer ' "beside published figures" with "$tmp/sweep" --plot "$tmp/loss.svg" --papers
expect 0 '4 clusters of listops: 2 of 3 runs finished: the plot shows these' "over clusters" with "$tmp/sweep" --plot "$tmp/clusters.svg" --what clusters --keep
check "with a band" grep -qx '4 37.5 25 50' "$tmp/clusters.svg.gnuplot"
expect 66 'at least two values' "clusters of a run" with "$tmp/sweep/b" --plot "$tmp/x.svg" --what clusters

over() { # over NAME HEADS ATTENTION LR ACCURACY
    make_run "$tmp/over/$1" 4 1 20 "$5"
    sed -i "s/\"heads\": 2/\"heads\": $2/; s/\"type\": .* 4/$3/; s/\"seed\"/\"lr\": $4, &/" "$tmp/over/$1/config.json"
}
over a 1 '"type": "full"' 0 0.50
over b 4 '"type": "full"' 0.002 0.60
over c 16 '"type": "full"' 0.002 0.70
over d 1 '"type": "performer", "features": 8' 0.001 0.40
over e 1 '"type": "performer", "features": 9' 0.001 0.45
over f 1 '"type": "performer", "features": 4096' 0.001 0.55
drawn() { with "$tmp/over" --plot "$tmp/drawn.svg" --keep --over "$@" && grep -qx "$pattern" "$tmp/drawn.svg.gnuplot"; }
check "clusters are a key" with "$tmp/sweep" --plot "$tmp/over.svg" --over model.attention.clusters --keep
check "with the same plot" cmp <(sed /svg/d "$tmp/clusters.svg.gnuplot") <(sed /svg/d "$tmp/over.svg.gnuplot")
pattern="set xtics ('1' 1, '4' 4, '16' 16)" check "others have one: a label each" drawn heads
pattern='16 70 70 70' check "and a point" drawn model.heads
pattern='set logscale x 2' check "far apart" drawn heads --what accuracy
pattern='set xlabel "features"' check "of one mechanism" drawn features
pattern="set xtics ('8' 8, '' 9, '4096' 4096)" check "without labels that have no room" drawn features
check "and the others" test "$(grep -cx '1 .*' "$tmp/drawn.svg.gnuplot")" = 0
pattern="set xtics ('0' 0, .*" check "from 0 on" drawn lr
check "on no logarithmic axis" test "$(grep -c 'set logscale' "$tmp/drawn.svg.gnuplot")" = 0
expect 66 'two values of model.attention.type that are numbers' "over words" with "$tmp/over" --plot "$tmp/x.svg" --over type
expect 64 "over: .*no key 'featurs' .*; did you mean 'features'" "over no key" "$report" "$tmp/over" --plot "$tmp/x.svg" --over featurs
expect 64 "over: .*no key 'seed' that tells them apart" "over seeds" "$report" "$tmp/over" --plot "$tmp/x.svg" --over seed
expect 64 'without --what loss' "loss over a key" "$report" "$tmp/over" --plot "$tmp/x.svg" --over heads --what loss
expect 64 '[-]-over is of --plot' "over a key without a plot" "$report" "$tmp/over" --over heads
expect 64 'x is of --html and of plots of loss' "over a key and time" "$report" "$tmp/over" --plot "$tmp/x.svg" --over heads --x time

mv "$tmp/sweep/b" "$tmp/sweep/fail"
expect 69 'gnuplot failed .status 1.: line 1: it fails' "a script that gnuplot refuses" \
    with "$tmp/sweep" --each --plot "$tmp/x.svg"
check "leaves no file" test ! -e "$tmp/x.svg"
mv "$tmp/sweep/fail" "$tmp/sweep/b"
for picture in loss.svg time.png; do
    cp "$tmp/$picture" "$tmp/before"
    expect 74 'cut off' "half a picture" env CUT= PATH="$tmp/bin:$PATH" "$report" "$tmp/sweep" --plot "$tmp/$picture"
    check "leaves the one of before" cmp "$tmp/before" "$tmp/$picture"
done
expect 69 'Debian has it in: gnuplot-nox' "no gnuplot" env PATH="$tmp/none" "$report" "$tmp/sweep" --plot "$tmp/x.svg"
expect 0 '^[|] Transformer ' "beside a page, too" with "$tmp/sweep" --plot "$tmp/loss.svg" --html "$tmp/both.html" --papers
expect 64 'plot is given twice' "two plots" "$report" "$tmp/sweep" --plot "$tmp/x.svg" --plot "$tmp/y.svg"
expect 64 'x is of --html and of plots of loss' "an axis over clusters" "$report" "$tmp/sweep" --plot "$tmp/x.svg" --what clusters --x time
expect 64 'keep is of --plot' "a script of no plot" "$report" "$tmp/sweep" --what length --keep
expect 64 'band is of' "a band over lengths" "$report" "$tmp/sweep" --plot "$tmp/x.svg" --what length --band sd

# ---- settings of several mechanisms ----

# A key that one mechanism has alone, and that does not differ among its runs, is no column.
over g 1 '"type": "lsh", "rounds": 2, "chunk": 8' 0.001 0.55
expect 0 '^g,listops,lsh,0.001,"rounds 2, chunk 8",1,1' "settings that are no defaults" "$report" "$tmp"/over/{a,d,g} --format csv
check "of each mechanism" grep -q '^d,listops,performer,0.001,features 8,1,1' "$tmp/out"
check "none of defaults" grep -q '^a,listops,full,0,,1,1' "$tmp/out"
expect 0 '^d,listops,performer,8,,1,1' "but not those with a column" "$report" "$tmp"/over/{d,e,g} --format csv
check "of one mechanism none" test "$("$report" "$tmp"/over/{d,e} --format csv | grep -c settings)" = 0
sed -i 's/"rounds": 2, "chunk": 8/"chunk": 32/' "$tmp/over/g/config.json"
check "and none where all are defaults" test "$("$report" "$tmp"/over/{a,g} --format csv | grep -c settings)" = 0

# ---- cores ----

{
    echo '{"task": "text", "ranks": 1, "threads": 2, "samples_per_s": 70, "faster": 1.9, "efficiency": 0.95, "lost_serial": 0.05}'
    echo '{"task": "text", "hosts": 2, "ranks": 2, "threads": 4, "samples_per_s": 230, "faster": 6, "efficiency": 0.75}'
} >"$tmp/cores"
expect 0 '^text,,1,2,70,1.9,95,5' "efficiency over cores" "$report" "$tmp/cores" --what cores --format csv
check "in per cent, by their names" grep -qF 'faster,efficiency_percent,lost_serial_percent' "$tmp/out"
expect 0 '^"text, predicted",2,2,4,230,6,75,' "of a model" "$report" "$tmp/cores" --what cores --format csv
check "a plot of cores" with "$tmp/cores" --what cores --plot "$tmp/cores.svg" --keep
check "a line for what is predicted" grep -qE '^8 75$' <(sed 's/^ //' "$tmp/cores.svg.gnuplot")
sed 's/0.95/1.2/' "$tmp/cores" >"$tmp/more"
check "all of what is above 100 %" with "$tmp/more" --what cores --plot "$tmp/more.svg" --keep
check "is inside" grep -qF 'set yrange [0:126]' "$tmp/more.svg.gnuplot"
for attention in cast full; do
    echo "{\"task\": \"text\", \"mechanism\": \"$attention\", \"batch\": 25, \"ranks\": 1, \"threads\": 2, \"efficiency\": 0.9}"
done >"$tmp/attentions"
expect 0 '^"text, full",1,2,90' "lines of two attentions" "$report" "$tmp/attentions" --what cores --format csv
check "are two" grep -q '^"text, cast",1,2,90' "$tmp/out"
sed 's/25/50/' "$tmp/attentions" >"$tmp/batch"
expect 65 'batch: line 1: has another batch' "batches as one line" \
    "$report" "$tmp/attentions" "$tmp/batch" --what cores --format csv
echo '{"task": "text", "ranks": 1, "threads": 2}' >"$tmp/cores"
expect 65 'cores: line 1: .*efficiency' "a row that is none" "$report" "$tmp/cores" --what cores

# ---- points ----

point() { # point MECHANISM KEY VALUE REST
    printf '{"config": {"model": {"attention": {"type": "%s", "%s": %s, "top_k": 32}}}, %s}\n' "$@"
}
{
    point clustered clusters 50 '"flops_share": 0.5, "error": 0.125, "kept": null'
    point local window 8 '"flops_share": 0.25, "error": 0.5, "kept": 0.75'
    point clustered clusters 25 '"flops_share": 0.25, "error": 0.25, "kept": null'
} >"$tmp/points"
expect 0 '^clustered,clusters 25,25,25,' "what attentions come to at what cost" \
    "$report" "$tmp/points" --what points --format csv
check "by mechanism and cost, with the keys that differ" \
    test "$(cut -d, -f1,2 "$tmp/out" | tail -n 3 | paste -sd/)" = 'clustered,clusters 25/clustered,clusters 50/local,'
check "a plot of two panels" with "$tmp/points" --what points --plot "$tmp/points.svg" --keep
check "over cost" grep -qE '^NaN 25 50 75 NaN NaN NaN$' <(sed 's/^ //' "$tmp/points.svg.gnuplot")
point full clusters null '"flops_share": 1, "error": 0' >>"$tmp/points"
expect 0 "1 of 4 rows have 'error' of 0, which its axis, a logarithmic one, has not" "an error of 0" \
    with "$tmp/points" --what points --plot "$tmp/points.svg" --keep
check "which the legend does not name" test "$(grep -c 'title "full"' "$tmp/points.svg.gnuplot")" = 0
echo '{"mechanism": "full", "seconds": 0.5, "accuracy": 0.5, "count": 2500, "seeds": 3}' >"$tmp/points"
expect 0 '^full,,500,50,1,3,0' "accuracy with its standard error" "$report" "$tmp/points" --what points --format csv
sed 's/{/&"config": {"train": {"objective": "masked"}}, /' "$tmp/points" >"$tmp/masked"
expect 0 '^full,,500,50,3,0' "of masked tokens without" "$report" "$tmp/masked" --what points --format csv
echo '{"mechanism": "lsh", "seconds": 0.25, "accuracy": 0.25, "count": 2500, "seeds": 3}' >>"$tmp/points"
expect 0 '^lsh,,250,25,0.866[0-9]*,3,-25' "beside full attention's" "$report" "$tmp/points" --what points --format csv
check "a plot of them" with "$tmp/points" --what points --plot "$tmp/points.svg" --keep
check "has their errors" grep -q 'with yerrorbars' "$tmp/points.svg.gnuplot"
sed '2s/2500/100/' "$tmp/points" >"$tmp/fewer"
expect 65 'fewer: line 2: has the accuracy of other examples' "but of other examples" "$report" "$tmp/fewer" --what points
sed '1s/{/&"split": "test", /; 2s/{/&"split": "val", /' "$tmp/points" >"$tmp/splits"
expect 65 'splits: line 2: has the accuracy of other examples' "or of another split" "$report" "$tmp/splits" --what points
# Rows of several weights, of a config each that tells its seed.
weighed() { # weighed MECHANISM CRC32 ACCURACY SEED
    printf '{"config": {"train": {"seed": %s}, "model": {"attention": {"type": "%s"}}}, "crc32": "%s", "accuracy": %s, "count": 100}\n' \
        "$4" "$1" "$2" "$3"
}
points=("$report" "$tmp/weights" --what points --format csv)
{ weighed full a 0.5 1 && weighed full b 0.75 2; } >"$tmp/weights"
{ weighed lsh b 0.5 2 && weighed lsh a 0.5 1; } >>"$tmp/weights"
expect 0 '^lsh,,50,0,2,-12.5,12.5' "rows of several weights are one, held against the same weights" "${points[@]}"
check "full attention's, too" grep -q '^full,,62.5,12.5,2,0,' "$tmp/out"
check "which a note says" grep -q 'difference from full attention with the same weights' \
    <("$report" "$tmp/weights" --what points --format md)
weighed lsh c 0.25 3 >>"$tmp/weights"
expect 0 '^lsh,,41.66[0-9]*,8.33[0-9]*,3,-12.5,12.5' "one that full attention lacks has no difference" "${points[@]}"
sed -i '1d; s/"count"/"flops_share": 1, &/' "$tmp/weights"
weighed smyrf b 0.5 2 | sed 's/"seed": 2/&, "batch": 99/' >>"$tmp/weights"
weighed smyrf a 0.25 1 >>"$tmp/weights"
expect 0 '^smyrf,,,25,4.33[0-9]*,1,,' "nor has a row of such weights; other configs are other rows" "${points[@]}"
check "of which the other has one" grep -q '^smyrf,,,50,5,1,-25,' "$tmp/out"
{ weighed full a 0.5 1 && weighed lsh b 0.25 1; } >"$tmp/weights"
expect 0 '^lsh,,25,4.33[0-9]*,-25' "weights trained apart are held against full attention's" "${points[@]}"
{ weighed full c 0.75 2 && weighed lsh d 0.75 2; } >>"$tmp/weights"
expect 0 '^lsh,,50,25,2,-12.5,27.9' "with the errors of both" "${points[@]}"
echo '{"mechanism": "full", "accuracy": 0.5}' >"$tmp/points"
expect 64 "nothing to draw" "a plot over no cost" "$report" "$tmp/points" --what points --plot "$tmp/x.svg"
printf '{"mechanism": "full", "error": 0.5}\n{"mechanism": "full"}\n' >"$tmp/points"
expect 65 'points: line 2: is no row' "a line that is none" "$report" "$tmp/points" --what points
expect 66 'points: is a file, not a run.s directory; rows .* --what length' "rows as a run" "$report" "$tmp/points"
expect 66 'is a directory' "a run as rows" "$report" "$tmp/sweep" --what points
printf '%s\n' '{"task": "text", "mechanism": "full", "accuracy": 0.5}' '{"config": {"task": "image"}, "mechanism": "full", "accuracy": 0.3}' \
    >"$tmp/points"
expect 65 'points: line 2: is of another task' "rows of two tasks" "$report" "$tmp/points" --what points
row='{"task": "a-task-of-others-whose-name-is-long", "mechanism": "full", "accuracy": 0.5}'
printf '%s\n' "$row" "$row" >"$tmp/points"
expect 0 'full' "of one with a long name" "$report" "$tmp/points" --what points
printf '%s\n' '{"mechanism": "full", "error": 0, "flops_share": 1}' '{"mechanism": "lsh", "error": 0, "accuracy": 0.5}' \
    '{"mechanism": "lsh", "error": 0, "flops_share": 0.5}' '{"mechanism": "full", "accuracy": 0.75}' >"$tmp/points"
expect 0 '^lsh,,50,0,,' "what has no cost comes last" "$report" "$tmp/points" --what points --format csv
check "and full attention's accuracy is found" grep -q '^lsh,,,0,50,-25' "$tmp/out"
check "errors of nothing are drawn" with "$tmp/points" --what points --plot "$tmp/none.svg"
if command -v gnuplot >/dev/null; then
    expect 0 "2 of 4 rows have no 'flops_share'" "without the rows that have no cost" \
        "$report" "$tmp/points" --what points --plot "$tmp/none.svg"
fi
printf '%s\n' '{"mechanism": "full", "accuracy": 0.5, "flops_share": 1}' '{"mechanism": "lsh", "accuracy": 0.5, "seconds": 0.1}' \
    '{"mechanism": "lsh", "error": 0.5, "flops_share": 0.5}' >"$tmp/points"
check "a panel that all rows have no place in is none" with "$tmp/points" --what points --plot "$tmp/one.svg" --keep
check "so that there is one" bash -c "! grep -q multiplot '$tmp/one.svg.gnuplot'"
printf '{"mechanism": "full", "seconds": 0.00%s, "error": 0.3}\n' 3 34 >"$tmp/points"
check "an axis from 2.3 to 4.4" with "$tmp/points" --what points --plot "$tmp/points.svg" --keep
check "has numbers" grep -qx "set xtics ('3' 3, '4' 4, '' 3 1, '' 4 1)" "$tmp/points.svg.gnuplot"
echo '{"mechanism": "full", "seconds": 0.00133, "error": 0.3}' >"$tmp/points"
check "an axis from 1.02 to 1.73" with "$tmp/points" --what points --plot "$tmp/points.svg" --keep
check "has them at its ends" grep -qxE "set xtics \('1.02' 1.0230[0-9]*, '1.73' 1.729\)" "$tmp/points.svg.gnuplot"

# ---- lengths ----

cat >"$tmp/bench.jsonl" <<'END'
{"mechanism": "cast", "tokens": 512, "samples_per_s": 8, "tokens_per_s": 4096, "peak_rss_mb": 20}
{"mechanism": "full", "tokens": 512, "samples_per_s": 2, "tokens_per_s": 1024, "peak_rss_mb": 40}
END
expect 0 '^full,512,2,1024,,,40,4' "what cast_bench prints, as CSV" "$report" "$tmp/bench.jsonl" --what length --format csv
cp "$tmp/out" "$tmp/bench.csv"
for i in {1..18}; do sed -n "s/^full/mechanism-$i/p" "$tmp/bench.csv"; done | cat <(head -1 "$tmp/bench.csv") - >"$tmp/many.csv"
for what in length growth; do
    "$report" "$tmp/many.csv" --what $what --format csv >"$tmp/out" 2>"$tmp/log"
    check "without a plot nothing is said of a legend ($what)" test ! -s "$tmp/log" -a -s "$tmp/out"
done
check "and a plot of that" with "$tmp/bench.csv" --what length --plot "$tmp/length.svg" --keep
check "with both" grep -qx '512 2 40' "$tmp/length.svg.gnuplot"
sed 's/"tokens": 512/"threads": 2, "tokens": 512/' "$tmp/bench.jsonl" >"$tmp/two"
sed 's/"tokens": 512/"threads": 1, "tokens": 1024/' "$tmp/bench.jsonl" >"$tmp/one"
expect 65 'one: line 1: has another batch, or other threads' "lengths by one thread and by two" \
    "$report" "$tmp/bench.jsonl" "$tmp/two" "$tmp/one" --what length
for n in 256 512 1024 2048; do
    echo "{\"mechanism\": \"cast\", \"tokens\": $n, \"samples_per_s\": $((2048 / n)), \"peak_rss_mb\": 7}"
    echo "{\"mechanism\": \"full\", \"tokens\": $n, \"samples_per_s\": $((4194304 / n / n)), \"peak_rss_mb\": $((n / 64))}"
done >"$tmp/growth.jsonl"
expect 0 '^cast,1024,2048,1,,0,' "exponents of growth, of the longer half" \
    "$report" "$tmp/growth.jsonl" --what growth --format csv
check "of time and of memory" grep -qE '^full,1024,2048,2,,1,' "$tmp/out"
for n in 1024 2048; do
    echo "{\"mechanism\": \"cast\", \"tokens\": $n, \"samples_per_s\": $((1048576 / n)), \"peak_rss_mb\": 8}"
done >"$tmp/two.jsonl"
check "with their standard errors" grep -qF 'time_exponent,time_exponent_standard_error,' "$tmp/out"
expect 0 '^cast,1024,2048,1,,0,' "of two lengths" "$report" "$tmp/two.jsonl" --what growth --format csv
expect 64 'growth is a table' "a plot of them" "$report" "$tmp/growth.jsonl" --what growth --plot "$tmp/growth.svg"
expect 65 'line 1: does not name the columns' "another file" "$report" README.md --what length
printf '{"mechanism": "cast", "tokens": 512, "samples_per_s": 8, "peak_share": 0.5}\n' >"$tmp/share.jsonl"
"$report" "$tmp/share.jsonl" --what length --format csv >"$tmp/share.csv"
"$report" "$tmp/share.csv" --what length --format csv >"$tmp/share2.csv"
check "its own CSV" cmp "$tmp/share.csv" "$tmp/share2.csv"
check "has the share of the peak" grep -q '^cast,512,8,,,50' "$tmp/share2.csv"
printf '{"mechanism": "=cast", "tokens": 512, "samples_per_s": 8}\n' >"$tmp/formula.jsonl"
expect 0 "^'=cast,512,8" "no cell is a formula" "$report" "$tmp/formula.jsonl" --what length --format csv
cp "$tmp/out" "$tmp/formula.csv"
expect 0 '^[|] =cast +[|]' "nor is its sign lost" "$report" "$tmp/formula.csv" --what length
printf 'mechanism,tokens,samples_per_s\ncast,inf,8\n' >"$tmp/inf.csv"
expect 65 'line 2: lacks' "infinitely many tokens" "$report" "$tmp/inf.csv" --what length
"$bin/cast_bench" "$tmp/sweep/b/config.json" --lengths 32,64 --mechanisms cast,full --seconds 0.01 --threads 1 --json \
    >"$tmp/real.jsonl" 2>"$tmp/log"
expect 0 '^\| full +\| +64 \|' "of cast_bench itself" "$report" "$tmp/real.jsonl" --what length
check "a line a mechanism" test "$("$report" "$tmp/real.jsonl" --what growth --format csv | cut -d, -f1-3 | tr -d '\r' | paste -sd' ')" \
    = "mechanism,from_tokens,to_tokens cast,32,64 full,32,64"
"$bin/cast_bench" "$tmp/sweep/b/config.json" --lengths 32 --mechanisms cast --seconds 0.01 --threads 1 --json \
    model.attention.clusters=2 >"$tmp/fewer.jsonl" 2>"$tmp/log"
expect 0 '^"cast, clusters 2",32,32,' "or one of its settings" "$report" "$tmp/real.jsonl" "$tmp/fewer.jsonl" --what growth --format csv
other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [ "$(id -u)" = 0 ] && "${other[@]}" test -x "$report" 2>/dev/null; then
    cp -r "$tmp/sweep" "$tmp/closed"
    chmod 755 "$tmp" && chmod 000 "$tmp/closed/b"
    expect 0 'closed/b/config.json: .*Permission denied; left out' "a directory that may not be entered" \
        "${other[@]}" "$report" "$tmp/closed"
    expect 66 'closed/b/sweep.json: .*Permission denied' "or swept into" \
        "${other[@]}" "$bin/cast_sweep" configs/listops.json train.seed=1,2 --out "$tmp/closed/b"
    expect 66 'closed/b/below: cannot be looked at: Permission denied' "or looked into" "${other[@]}" "$report" "$tmp/closed/b/below"
else
    echo "ok - # SKIP not root, or no other user can run it here"
fi

# ---- pages ----

make_split "$tmp/pixels.safetensors" custom 1 1 1
"$bin/cast_data" show "$tmp/pixels.safetensors" --index 0 --png "$odd/viz_1.png" >/dev/null
head -c -1 "$odd/viz_1.png" >"$odd/viz_4.png"
{ head -c 40 "$odd/viz_1.png" && printf x && tail -c +42 "$odd/viz_1.png"; } >"$odd/viz_5.png"
echo text >"$odd/viz_2.png"
echo '<p class="a">1 & 2</p>' >"$odd/viz-3.html"
expect 0 'viz_2.png: is not a PNG' "a page" with "$tmp/odd" "$tmp/sweep" --each --html "$tmp/page.html"
check "nor is one that is cut off, or spoilt" test "$(grep -cE 'viz_[45].png: is not .* all of one; left out' "$tmp/out")" = 2
check "has no other scheme or host" bash -c "[ -s '$tmp/page.html' ] && ! grep -oE '((src|href)=[\"'\''][^\"'\'']*|url\(|@import)' '$tmp/page.html' |
    grep -vE '^(src=.data:image/png;|href=.#)'"
check "has its pictures in it" grep -qF "src=\"data:image/png;base64,$(base64 -w 0 "$odd/viz_1.png")\"" "$tmp/page.html"
check "and its coloured tokens" grep -qF 'srcdoc="<p class=&quot;a&quot;>1 &amp; 2</p>' "$tmp/page.html"
check "escapes names" bash -c "grep -qF 'a|b&amp;c_d%&lt;i&gt;' '$tmp/page.html' && ! grep -qF '<i>' '$tmp/page.html'"
check "holds curves, their ids apart" grep -q '<svg id="p1-a"><path stroke="currentColor"/><use href=.#p1-a./></svg>' "$tmp/page.html"
check "config" grep -qF '&quot;clusters&quot;:' "$tmp/page.html"
cp -r "$tmp/sweep/b" "$tmp/twin"
cp "$odd/viz_1.png" "$tmp/twin/viz_9.png"
expect 0 'twin: of the same config and seed as .*left out' "a page of a run and its copy" \
    with "$tmp/sweep/b" "$tmp/twin" --html "$tmp/copies.html"
check "leaves its pictures out too" bash -c "! grep -q viz_9 '$tmp/copies.html'"
expect 0 'viz_9.png' "which it has by itself" bash -c "'$report' '$tmp/twin' --html '$tmp/copies.html' >/dev/null; grep -o viz_9.png '$tmp/copies.html'"
for i in 1 2; do
    check "a page among the pictures, $i" "$report" "$tmp/twin" --html "$tmp/twin/viz.html"
    cp "$tmp/twin/viz.html" "$tmp/page-$i"
done
check "does not hold itself" cmp "$tmp/page-1" "$tmp/page-2"
expect 0 'the page has no curves' "a page without gnuplot" env PATH="$tmp/none" "$report" "$tmp/sweep" --html "$tmp/plain.html"
check "says why" grep -q 'No curves: .*gnuplot-nox' "$tmp/plain.html"
expect 74 'cannot be written' "a page that is too large" with_small_files "$report" "$tmp/sweep" --papers --html "$tmp/large.html"
check "leaves nothing" test -z "$(find "$tmp" -name 'large*')"
expect 73 'cannot be created' "a page that cannot be" "$report" "$tmp/sweep" --html "$tmp/nowhere/page.html"

# ---- the real one ----

if command -v gnuplot >/dev/null; then
    check "gnuplot draws an oddly named run" "$report" "$tmp/odd" --each --plot "$tmp/real.svg"
    # shellcheck disable=SC2016
    check "as SVG" grep -qF 'a|b&amp;c_d%&lt;i>`id`$x' "$tmp/real.svg"
    check "and PNG" "$report" "$tmp/sweep" --plot "$tmp/real.png" --what accuracy --x tokens --keep
    check "which it is" test "$(head -c 4 "$tmp/real.png" | tail -c 3)" = PNG
    mv "$tmp/real.png" "$tmp/before.png"
    check "the script that was kept draws" gnuplot -d "$tmp/real.png.gnuplot"
    check "the same" cmp "$tmp/before.png" "$tmp/real.png"
    check "clusters" "$report" "$tmp/sweep" --what clusters --plot "$tmp/real.svg"
    check "lengths" "$report" "$tmp/bench.csv" --what length --plot "$tmp/real.svg"
else
    echo "ok - # SKIP no gnuplot: its pictures are not looked at"
fi

# ---- in LaTeX ----

if command -v gnuplot >/dev/null && command -v pdflatex >/dev/null && kpsewhich booktabs.sty >"$tmp/log"; then
    mkdir "$tmp/paper"
    table() { "$report" "${@:2}" --format latex >"$tmp/paper/$1"; }
    table clusters.tex results/metrics/clusters --columns clusters,test_best_percent,samples_per_s,memory_mb \
        --caption 'Clusters on image' --label tab:clusters
    table papers.tex results/metrics/first --papers --across --caption 'Accuracy, %' --label tab:papers \
        --columns model,ListOps,Text,Retrieval,Image,Pathfinder,Path-X,mean_of_5
    "$report" results/metrics/clusters --what clusters --plot "$tmp/paper/clusters.pdf" --width 84
    "$report" results/metrics/first --each --what accuracy --x time --plot "$tmp/paper/curves.pdf" --width 84 --height 70
    cat >"$tmp/paper/paper.tex" <<'END'
\documentclass[twocolumn]{article}
\usepackage[a4paper,textwidth=178mm,columnsep=6mm]{geometry}
\usepackage{booktabs,graphicx}
\begin{document}
\input{clusters}
\input{papers}
\begin{figure}\includegraphics{clusters}\caption{Clusters}\end{figure}
\begin{figure}\includegraphics{curves}\caption{Curves}\end{figure}
Tables \ref{tab:clusters} and \ref{tab:papers}.
\end{document}
END
    check "a paper compiles" bash -c "cd '$tmp/paper' && pdflatex -interaction=nonstopmode -halt-on-error paper >log"
    check "without an overfull box" test "$(grep -c '^Overfull' "$tmp/paper/paper.log")" = 0
    "$report" results/metrics/clusters --format latex --columns clusters,finished,test_best_percent,test_last_percent,memory_mb \
        >"$tmp/paper/clusters.tex" 2>"$tmp/said"
    check "and with one where a table was said to be too wide" bash -c "grep -q 'about 9[0-9] mm wide' '$tmp/said' &&
        cd '$tmp/paper' && pdflatex -interaction=nonstopmode paper >log && grep -q '^Overfull' paper.log"
else
    echo "ok - # SKIP no gnuplot or LaTeX with booktabs: no paper is made"
fi

expect 0 'text-masked-1-masked/last.safetensors and others' "first weights that are each seed's own" \
    "$report" results/metrics/best/text-{1,masked-1,masked-2} --format csv

cp -r results/metrics/best/text-masked-1 "$tmp/moved"
sed -i 's#"init": "runs#"init": "./runs#' "$tmp/moved/config.json"
expect 0 'of the same config and seed as .*left out' "of a copy they have another path" \
    "$report" "$tmp/moved" results/metrics/best/text-masked-1

sed -i 's/"crc32": "[0-9a-f]*"/"crc32": "01234567"/' "$tmp/moved/env.json"
expect 0 ' 2 of 2 ' "but not of other weights, whatever their path and seed" "$report" "$tmp/moved" results/metrics/best/text-masked-1

# ---- two side by side ----

# Tests of 1000 examples: deviations over seeds 2.83 and 1.41, of the test set 1.48 and 1.58.
for run in "a 1 0.30" "a 2 0.34" "b 1 0.50" "b 2 0.52"; do
    read -r side seed accuracy <<<"$run"
    make_run "$tmp/pair/$side/$seed" 4 "$seed" 20 "$accuracy"
    sed -i 's/"which": "best"/"count": 1000, &/' "$tmp/pair/$side/$seed/metrics.jsonl"
done
a=$tmp/pair/a b=$tmp/pair/b
# The difference has 5.506 degrees of freedom, with which t is 2.50110.
expect 0 '^listops,32,2.485155931,2,51,1.870561413,2,19,3.110466203,11.220[0-9]*,26.779[0-9]*,0.0012053935[0-9]*,higher' "a difference" \
    "$report" "$a" "$b" --compare --format csv
expect 0 '^listops,.*,-26.779[0-9]*,-11.220[0-9]*,0.0012053935[0-9]*,lower' "the other way" "$report" "$b" "$a" --compare --format csv
expect 0 'not told apart' "a run and itself" "$report" "$a/1" "$a/1" --compare
check "tells of one seed" grep -q '^Of one seed each' "$tmp/out"
expect 0 'higher in these runs' "of one seed each it is the runs that differ" "$report" "$a/1" "$b/1" --compare
# With the spread of the other, 1.41: 1 + 1/2 of its square, 2.1 and 2.5 of the test sets.
expect 0 '^listops,30,1.449137675,1,51,1.870561413,2,21,2.756628375,.*,higher' "one seed has the spread of several" \
    "$report" "$a/1" "$b" --compare --format csv
check "which is told" bash -c "'$report' '$a/1' '$b' --compare | grep -q '^One seed beside several'"
make_run "$tmp/pair/b/other" 8 1 20 0.4
sed -i 's/"which": "best"/"count": 1000, &/' "$tmp/pair/b/other/metrics.jsonl"
expect 64 'b has 2 recipes or sets of data of listops: name all runs of two' "several configs" "$report" "$a" "$b" --compare
named=("$report" "$b"/[12] "$b/other" --compare)
expect 0 '^listops,51,1.870561413,2,40,.*,lower' "runs of two recipes, by name" "${named[@]}" --format csv
check "which what differs calls" grep -q '^task,a_percent' "$tmp/out"
expect 0 '^A: clusters 4\. B: clusters 8\.' "in the order of their runs" "${named[@]}"
expect 0 '^A: clusters 8\. B: clusters 4\.' "whichever that is" "$report" "$b/other" "$b"/[12] --compare
expect 0 '^A: clusters 8\. B: clusters 4\.' "and of the directory of all" "$report" "$b/other" "$b/" --compare
cp -r "$b/1" "$tmp/z-copy"
expect 0 '^A: clusters 4\. B: clusters 8\.' "or a copy of" "$report" "$tmp/z-copy" "$b/1" "$b/2" "$b/other" --compare
cp -r "$b/other" "$tmp/z-other"
expect 0 '^A: clusters 8\. B: clusters 4\.' "whichever" "$report" "$tmp/z-other" "$b/other" "$b"/[12] --compare
expect 64 'of two recipes or sets of data, and these runs have 1' "of one" "$report" "$a/1" "$a/2" "$b/1" --compare
make_run "$tmp/pair/b/third" 16 1 20 0.45
make_run "$tmp/pair/b/begun" 32 1 10 0.5
sed -i 's/"which": "best"/"count": 1000, &/' "$tmp/pair/b/third/metrics.jsonl"
expect 0 '^listops,clusters 8,40,1.549193338,1,,,,,,,.?$' "of several recipes the first is held" \
    "$report" "$b/other" "$b/third" "$b" --compare --format csv
check "against each other one" test "$(grep -a '^listops' "$tmp/out" | cut -d , -f 2,3,6 | paste -sd ' ')" = \
    "clusters 8,40, clusters 4,51,11 clusters 16,45,5"
check "with p of both together" grep -qE '^listops,clusters 4,.*,0.005906[0-9]*,0.011812[0-9]*,higher' "$tmp/out"
expect 0 '^Each is held against the first of its task' "and so it says" "$report" "$b" --compare
rm -r "$tmp/pair/b/third" "$tmp/pair/b/begun"
for run in "1 4 20" "2 8 20" "text-1 4 10" "text-2 8 20"; do
    read -r name clusters last <<<"$run"
    make_run "$tmp/pair/tasks/$name" "$clusters" 1 "$last" 0.5
    sed -i 's/"which": "best"/"count": 1000, &/' "$tmp/pair/tasks/$name/metrics.jsonl"
done
sed -i 's/listops/text/' "$tmp"/pair/tasks/text-*/config.json
expect 0 '^listops,clusters 8,.*,not told apart' "task by task" "$report" "$tmp/pair/tasks" --compare --format csv
check "but where the first is not finished" bash -c "! grep -aq '^text' '$tmp/out'"
sed 's/listops/text/' "$a/1/config.json" >"$tmp/text.json"
cp -r "$a/1" "$tmp/pair/of-text" && cp "$tmp/text.json" "$tmp/pair/of-text/config.json"
expect 66 'no task with finished runs of both' "runs of two tasks" "$report" "$a/1" "$tmp/pair/of-text" --compare
for side in a b; do
    make_run "$tmp/pair/masked-$side" 4 1 20 "0.$([ $side = a ] && echo 30 || echo 50)"
    sed -i 's/"train": {/&"objective": "masked", /' "$tmp/pair/masked-$side/config.json"
    sed -i 's/"which": "best"/"count": 1000, &/' "$tmp/pair/masked-$side/metrics.jsonl"
done
expect 0 'masked.*,20,,,,,not told apart' "nothing is certain of one masked run a side" \
    "$report" "$tmp/pair/masked-a" "$tmp/pair/masked-b" --compare --format csv
expect 64 'of two recipes or sets of data, and these runs have 1' "one recipe alone" "$report" "$a" --compare
expect 0 '^A: clusters 4\. B: clusters 8\.' "a directory of two recipes" "$report" "$b" --compare
check "whose runs do not tell of examples" grep -q '^Where a run does not tell which examples' "$tmp/out"

# Example by example: B - A is 0 of four, 1/2 of two and 1 of two. With 1 and -1 the ten have squares of 3.6 about
# their mean; a hundredth of that, but for 0.5 / 64 by the runs, and 0.5 (0.0884)^2 of the seeds on either side are 0.036.
for run in "a 1 0.5 f0" "a 2 0.625 f8" "b 1 1 ff" "b 2 0.875 fe"; do
    read -r side seed accuracy right <<<"$run"
    make_run "$tmp/same/$side/$seed" 4 "$seed" 20 "$accuracy"
    sed -i 's/"which": "best"/"count": 8, "correct": "'"$right"'", &/' "$tmp/same/$side/$seed/metrics.jsonl"
done
same=("$report" "$tmp/same/a" "$tmp/same/b" --compare)
expect 0 '^listops,.*,37.5,18.97366[0-9]*,' "the same examples" "${same[@]}" --format csv
expect 0 '^Differences are taken example by example' "which is told" "${same[@]}"
# Seeds that happen to be alike, 0.5 twice and 0.75 twice, are no certainty: with 1 and -1 the ten have squares of 2.6
# about their mean, and a hundredth of that is the least.
for run in "a 1 0.5 f0" "a 2 0.5 0f" "b 1 0.75 fc" "b 2 0.75 3f"; do
    read -r side seed accuracy right <<<"$run"
    make_run "$tmp/alike/$side/$seed" 4 "$seed" 20 "$accuracy"
    sed -i 's/"which": "best"/"count": 8, "correct": "'"$right"'", &/' "$tmp/alike/$side/$seed/metrics.jsonl"
done
expect 0 '^listops,.*,25,16.1245[0-9]*,.*,not told apart' "seeds that are alike" "$report" "$tmp/alike/a" "$tmp/alike/b" --compare --format csv
# As McNemar's exact test has it, of 200 examples: p is .125 of four, and .031 of six.
for few in "f 4 0.02 not told apart" "fc 6 0.03 higher"; do
    read -r digits right accuracy verdict <<<"$few"
    for side in a b; do
        make_run "$tmp/few/$side" 4 1 20 "$([ $side = a ] && echo 0 || echo "$accuracy")"
        [ $side = a ] && digits_of=0 || digits_of=$digits
        sed -i 's/"which": "best"/"count": 200, "correct": "'"$(printf '%-50s' "$digits_of" | tr ' ' 0)"'", &/' "$tmp/few/$side/metrics.jsonl"
    done
    expect 0 "^listops,.*,$verdict" "$right more of 200" "$report" "$tmp/few/a" "$tmp/few/b" --compare --format csv
done
for wrong in fg f f00; do
    sed -i 's/"correct": "[^"]*"/"correct": "'$wrong'"/' "$tmp/same/b/1/metrics.jsonl"
    expect 0 '^Where a run does not tell' "$wrong does not tell of 8" "${same[@]}"
done

# ---- other data ----

data() { # data RUN SOURCE TEST [HASH]
    local hash=''
    if [ $# -gt 3 ]; then hash=", \"hashes\": { \"train\": \"$4\" }"; fi
    echo "{ \"data\": { \"source\": \"$2\", \"train\": 9, \"val\": 9, \"test\": $3$hash } }" >"$tmp/data/$1/env.json"
}
for run in "one 1 0.30" "two 2 0.34" "far 3 0.80"; do
    read -r name seed accuracy <<<"$run"
    make_run "$tmp/data/$name" 4 "$seed" 20 "$accuracy"
    sed -i 's/"which": "best"/"count": 1000, &/' "$tmp/data/$name/metrics.jsonl"
done
data one here 9; data two here 9; data far there 9
expect 0 'listops \| here: 9 / 9 / 9 +\|.* 32.00 ' "runs of other data are no seeds of these" "$report" "$tmp/data"
check "and have a row of their own" grep -qE '^\|.*\| there: 9 / 9 / 9 +\|.* 80.00 ' "$tmp/out"
data far here 9
expect 0 '48.00 ± 27.78' "of the same they are" "$report" "$tmp/data"
data one here 9 aa; data two here 9 aa; data far there 9 aa
expect 0 '48.00 ± 27.78' "the same hash says more than words" "$report" "$tmp/data"
data far here 9 bb
expect 0 'here: 9 / 9 / 9, hashes bb +\|.* 80.00 ' "as does another" "$report" "$tmp/data"
data two here 9
data one here 9 aa
expect 0 'here: 9 / 9 / 9, hashes aa +\|' "of which some tell no hash" "$report" "$tmp/data"
check "and are of one side" grep -qE 'here: 9 / 9 / 9, hashes bb +\|' "$tmp/out"
data two here 9 aa
data far here 9
echo '{"kind": "change", "step": 10, "epoch": 2, "what": "data.train", "was": "aa", "now": "bb"}' >>"$tmp/data/far/metrics.jsonl"
expect 0 'accept-data\) +\|.* 80.00 ' "one that changed them is apart" "$report" "$tmp/data"
data far there 8
expect 0 '^listops,30,.*,80,.*,,,,,,of other tests' "nothing is said of tests on other examples" \
    "$report" "$tmp/data/one" "$tmp/data/far" --compare --format csv
make_run "$tmp/data/wide" 8 1 20 0.60
sed -i 's/"which": "best"/"count": 1000, &/' "$tmp/data/wide/metrics.jsonl"
data far there 9 bb
data wide there 9 bb
expect 0 'listops \| +8 \| there: 9 / 9 / 9, hashes bb +\|' "another recipe's data are told as well" "$report" "$tmp/data"
echo '{ "version": "0.1.0" }' >"$tmp/data/two/env.json"
data one here 9 aa
data wide there 8
expect 0 '^listops,32,.*,60,.*,,,,,,of other tests' "whichever run tells of its tests" \
    "$report" "$tmp/data/two" "$tmp/data/one" "$tmp/data/wide" --compare --format csv
data wide here 9 aa
sed -i 's/"count": 1000/"count": 100/' "$tmp/data/wide/metrics.jsonl"
expect 0 '^listops,32,.*,60,.*,,,,,,of other tests' "of a part of the test set neither" \
    "$report" "$tmp/data/one" "$tmp/data/two" "$tmp/data/wide" --compare --format csv
expect 64 'compare takes no --papers' "with another table" "$report" "$a" "$b" --compare --papers
