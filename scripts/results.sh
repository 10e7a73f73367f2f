#!/bin/bash
# The tables and plots of results/ and the README, from committed metrics.
#   results.sh               rebuilds them all: in the pages, what stands between
#                                <!-- made by: COMMAND -->
#                                <!-- end -->
#                            becomes what COMMAND prints when it is run at the root
#   results.sh keep DIR      keeps of the runs in DIR what reports read, in results/metrics/
#   results.sh losses DIR N  of each run in DIR: mean training loss of the first N lines, and of the last N
#   results.sh windows N FILE FILE...
#                            loss curves with a line an update: means of every N updates; of the second file on, the
#                            difference to the first, and the largest of any update in it
set -eu
cd "$(dirname "$0")/.."

rebuild() { # PAGE
    awk '
        /^<!-- end -->$/ { between = 0 }
        !between { print }
        /^<!-- made by: .* -->$/ {
            between = 1
            fflush()
            if (system(substr($0, 15, length($0) - 18)) != 0) exit failed = 1
        }
        END {
            if (between && !failed) print FILENAME ": a table without <!-- end -->" >"/dev/stderr"
            exit between || failed
        }' "$1" >"$1.new" || { rm -f "$1.new"; return 1; }
    cmp -s "$1" "$1.new" || echo "$1: rebuilt"
    mv "$1.new" "$1"
}

find_runs() { # DIR: fills runs with those in it, one level or two down
    mapfile -t runs < <(find -L "${1%/}" -mindepth 2 -maxdepth 3 -name metrics.jsonl -printf '%h\n' | sort)
    [ ${#runs[@]} -gt 0 ] || { echo "results.sh: $1: no run there has a metrics.jsonl" >&2; exit 66; }
}

keep() { # DIR
    local run to
    find_runs "$1"
    for run in "${runs[@]}"; do
        to=results/metrics/$(basename "$1")/${run#"${1%/}"/}
        mkdir -p "$to"
        cp "$run"/{config.json,env.json,metrics.jsonl} "$to"
        echo "$to"
    done
}

losses() { # DIR N
    local run
    find_runs "$1"
    printf '| run | first | last |\n| --- | ---: | ---: |\n'
    for run in "${runs[@]}"; do
        sed -nE 's/^\{"kind": "train", "step": ([0-9]+),.* "loss": ([0-9.e+-]+),.*/\1 \2/p' "$run/metrics.jsonl" |
            awk -v n="$2" -v name="${run##*/}" '
            { while (lines && step[lines] >= $1) lines--; step[++lines] = $1; loss[lines] = $2 }
            END {
                if (lines < n) { print name ": has " lines " lines of training, not " n >"/dev/stderr"; exit 1 }
                for (i = 1; i <= n; i++) { first += loss[i]; last += loss[lines - n + i] }
                printf "| %s | %.3f | %.3f |\n", name, first / n, last / n
            }'
    done
}

windows() { # N FILE FILE...
    local n=$1
    shift
    awk -v n="$n" '
        FNR == 1 {
            files++
            name[files] = FILENAME
            gsub(/.*\/|\.jsonl$/, "", name[files])
        }
        match($0, /"step": [0-9]+/) {
            step = substr($0, RSTART + 8, RLENGTH - 8) + 0
            match($0, /"loss": [0-9.e+-]+/)
            loss[files, step] = substr($0, RSTART + 8, RLENGTH - 8)
            if (step > last) last = step
        }
        END {
            printf "| updates up to | %s |", name[1]
            for (f = 2; f <= files; f++) printf " %s | largest |", name[f]
            printf "\n| ---: | ---: |"
            for (f = 2; f <= files; f++) printf " ---: | ---: |"
            print ""
            for (to = n; to <= last; to += n) {
                for (f = 1; f <= files; f++) {
                    sum = most = there = 0
                    for (i = to - n + 1; i <= to; i++) {
                        there += (f, i) in loss
                        sum += loss[f, i]
                        off = loss[1, i] > 0 ? loss[f, i] / loss[1, i] - 1 : 0
                        if (off < 0) off = -off
                        if (off > most) most = off
                    }
                    if (f == 1) printf "| %d | %.5f |", to, first = sum / n
                    else if (there < n) printf " - | - |"
                    else printf " %+.2f %% | %.0e |", 100 * (sum / n / first - 1), most
                }
                print ""
            }
        }' "$@"
}

case $#,${1-} in
    0,) for page in README.md results/*.md; do rebuild "$page"; done ;;
    2,keep) keep "$2" ;;
    3,losses) losses "$2" "$3" ;;
    [4-9],windows) shift && windows "$@" ;;
    *) sed -n '/^#   /s/^# \{0,1\}//p' "$0" >&2; exit 64 ;;
esac
