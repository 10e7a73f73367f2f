#!/bin/bash
# What older versions wrote is opened by this one: tests/compat/VERSION/TASK is what scripts/record_compat.sh made with
# that version, and what it said of it. Works on copies, from within their directory, as that version did.
set -u
. tests/training.sh
cp -r tests/compat/*/ "$tmp"

# Two files hold the same words, split at spaces and commas; of numbers, to a relative TOLERANCE.
near() { # near TOLERANCE OLD NEW
    awk -F'[ ,]' -v most="$1" '
        function number(a) { return a ~ /^[0-9.]+(e[-+][0-9]+)?$/ }
        function same(a, b) { return a == b || (number(a) && number(b) && (a - b) ^ 2 <= (most * a) ^ 2) }
        NR == FNR { old[NR] = $0; expected = NR; next }
        {
            found++
            good = split(old[FNR], was) == NF
            for (i = 1; i <= NF && good; i++) good = same(was[i], $i)
            if (!good) { print "was: " old[FNR] "\nnow: " $0; wrong = 1 }
        }
        END { if (found != expected) print expected " lines were, " found " are"; exit wrong || found != expected }' \
        "$2" "$3"
}

# As the older version evaluated the run's best weights, or those at $place: accuracy and loss, by the name of the line
# in `evaluations`.
evaluates() { # evaluates NAME OPTION...
    local name=$1
    shift
    "$bin/cast_eval" "${place:-whole}" --json "$@" >"$tmp/json" || return
    echo "$name" "$(sed -nE 's/^\{[^{]*"accuracy":([^,]*),"loss":([^,]*),.*/\1 \2/p' "$tmp/json")" >"$tmp/now"
    grep "^$name " evaluations >"$tmp/was" && near 1e-4 "$tmp/was" "$tmp/now"
}

# Kind, update, learning rate and loss of the lines that a run wrote after it went on.
after_stop() { # after_stop RUN
    sed -n '/"kind": "resume"/,$p' "$1/metrics.jsonl" |
        sed -nE 's/.*"kind": "(train|val|test)", "step": ([0-9]+),.*"loss": ([^,]*),(.*"lr": ([^,]*),)?.*/\1 \2 \3 \5/p'
}

# Masks of dropout may be other ones in each version: with them, losses are as large as they were, and no more.
same_way() { # same_way OLD NEW
    local tolerance=3e-3
    grep -q '"dropout": 0,' "$2/config.json" || tolerance=0.5
    after_stop "$1" >"$tmp/was" && after_stop "$2" >"$tmp/now"
    test -s "$tmp/was" && diff <(cut -d ' ' -f 1,2 "$tmp/was") <(cut -d ' ' -f 1,2 "$tmp/now") &&
        near 1e-6 <(cut -d ' ' -f 4 "$tmp/was") <(cut -d ' ' -f 4 "$tmp/now") && near $tolerance "$tmp/was" "$tmp/now"
}

# The moments of a run in single precision are none of one in double.
warns_of_nothing() { ! grep 'warning' "$tmp/out" | other_than_callers; }
goes_on() { # goes_on TASK
    if [ "${CAST_MODE:-}" = double ]; then
        echo "ok # SKIP $1: a run in single precision does not go on in double"
        return
    fi
    cp -r half again
    expect 0 'again: resuming at update 14$' "$1: the resolved config is one too" \
        "$bin/cast_train" again/config.json --out again --stop-at 15
    grep -aq '"kernels"' half/last.safetensors || # since 0.2.0
        check "$1: and does not say which data it had" grep -q 'does not say what it was made with' "$tmp/out"
    expect 0 'again: resuming at update 15$' "$1: going on once more" \
        "$bin/cast_train" again/config.json --out again --stop-at 16
    check "$1: it does" warns_of_nothing
    expect 0 'half: resuming at update 14$' "$1: a run goes on" "$bin/cast_train" config.json --out half
    check "$1: to its end" grep -qE '^test accuracy of last \(update 24\)' "$tmp/out"
    check "$1: as it did" same_way whole half
    [ -e whole/last.safetensors ] || return
    expect 0 'whole: resuming at update 24, the last: nothing is left to train$' "$1: a finished run tests again" "$bin/cast_train" config.json --out whole
}

opens() { # opens TASK
    local figure said
    expect 0 "^data/test.safetensors: .*: OK" "$1: its data are right" "$bin/cast_data" verify data
    expect 0 "^  task +$1\$" "$1: they are shown" "$bin/cast_data" show data
    check "$1: its best weights do as well" evaluates best --predict now.csv
    check "$1: example by example" near 1e-4 best.csv now.csv
    check "$1: and in validation" evaluates val --split val
    [ ! -e exported.safetensors ] || place=exported.safetensors check "$1: its exported weights do too" evaluates best
    check "$1: and with exact attention" evaluates full model.attention.type=full
    expect 78 "leave this key as trained: model.conv [(]0, now 3[)]" "$1: a part that it has not is named" \
        "$bin/cast_eval" whole model.conv=3
    figure=$(awk '$1 == "best" { printf "%.2f", 100 * $2 }' evaluations)
    expect 0 "^\| whole +\| $1 +\| +1 of 1 .* $figure " "$1: its metrics are read" "$bin/cast_report" whole
    said=$(awk -F, '$1 == 3 { print "label " $2 ".*predicted " $3 }' best.csv)
    expect 0 "^example 3 of test: $said" "$1: its clusters are drawn" "$bin/cast_viz" whole --index 3 --out pictures
    expect 0 '^wrote +today_torch.py$' "$1: it is exported" "$bin/cast_export" whole --out today --python
    check "$1: with the keys that Python's readers ask for" grep -aqF '\"conv\":' today.safetensors
    goes_on "$1"
}

for task in "$tmp"/*/*/config.json; do
    cd "$(dirname "$task")" || exit 1
    opens "$(basename "$PWD")"
done
