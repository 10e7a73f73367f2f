#!/bin/bash
# The tables and plots of results/, docs/ and the README, from committed metrics.
#   results.sh               rebuilds them all: in the pages, what stands between
#                                <!-- made by: COMMAND -->
#                                <!-- end -->
#                            becomes what COMMAND prints when it is run at the root
#   results.sh PAGE.md...    rebuilds these, whose names are meant from the root
#   results.sh keep DIR [NAME]
#                            keeps what reports read in results/metrics/NAME [DIR's]: of the runs in DIR, and its rows,
#                            *.jsonl; RUN-masked, RUN-easy and RUN-intermediate, which a recipe begins RUN with, as
#                            metrics/masked/RUN and so on. Of weights their SHA-256 is kept, which a repeated run has as
#                            well, on the same processor
#   results.sh losses DIR N  of each run in DIR: mean training loss of the first N lines, and of the last N
#   results.sh validations DIR  accuracies in validation of the runs in DIR, side by side
#   results.sh moved FILE    surrogate tokens over updates, layer by layer, from lines of cast_viz --stats --json
#   results.sh heads FILE ATTENTION
#                            errors by layer and head, and kept mass, of an attention's rows of cast_eval --approximation
#   results.sh windows N FILE FILE...
#                            loss curves with a line an update: means of every N updates; of the second file on, the
#                            difference to the first, and the largest of any update in it
#   results.sh pairs N A B [A B]...
#                            the same of every B to its A, and of all B together to all A
set -eu
export LC_ALL=C.UTF-8 # numbers with a point, whatever the user writes
unset CDPATH
cd "$(dirname "$0")/.."

rebuild() { # PAGE: its commands in bash, where one that fails in front of a pipe counts
    awk '
        /^<!-- end -->$/ { between = 0 }
        !between { print }
        /^<!-- made by: .* -->$/ {
            between = 1
            fflush()
            print "set -o pipefail\n" substr($0, 15, length($0) - 18) | "bash"
            if (close("bash") != 0) exit failed = 1
        }
        END {
            if (between && !failed) print FILENAME ": a table without <!-- end -->" >"/dev/stderr"
            exit between || failed
        }' "$1" >"$1.new" || { rm -f "$1.new"; return 1; }
    cmp -s "$1" "$1.new" || echo "$1: rebuilt"
    mv "$1.new" "$1"
}

rebuild_all() { # PAGE...
    local page
    for page in "$@"; do
        [ -e "$page" ] || { echo "results.sh: there is no $page in $PWD" >&2; exit 66; }
        rebuild "$page"
    done
}

list_runs() { # DIR FILE: fills runs with those in it that have such a file, one level or two down
    mapfile -t runs < <(find -L "${1%/}" -mindepth 2 -maxdepth 3 -name "$2" -printf '%h\n' | sort)
}
find_runs() { # DIR FILE: the same; there must be some
    list_runs "$@"
    [ ${#runs[@]} -gt 0 ] || { echo "results.sh: $1: no run there has a $2" >&2; exit 66; }
}

stage_of() { # RUN: masked, easy or intermediate, if a recipe begins another run with it; a run may be named so, too
    local stage=${1##*-} mark
    case $stage in
    masked) mark='"objective": *"masked"' ;;
    easy | intermediate) mark='"dir": *"[^"]*-'$stage'"' ;;
    *) return 0 ;;
    esac
    [[ ! -d ${1%-*} ]] || ! grep -q "$mark" "$1/config.json" || echo "$stage"
}

sums() { # RUN: as sha256sum -c reads them in a repeated run's directory
    local file
    for file in best.safetensors last.safetensors; do
        [ ! -e "$1/$file" ] || (cd "$1" && sha256sum "$file")
    done
}

keep() { # DIR [NAME]: one that failed at once has not all of these files, and counts as well
    local run to file kept rows stage
    [ ! -e "$1/config.json" ] ||
        { echo "results.sh: $1 is a run: name the directory that it is in, whose runs are kept" >&2; exit 66; }
    kept=results/metrics/${2-$(basename "$1")}
    [[ ! $1 -ef $kept ]] || { echo "results.sh: $1 is where its runs are kept: name what is to be kept there" >&2; exit 64; }
    rows=("${1%/}"/*.jsonl)
    if [ -e "${rows[0]}" ]; then
        mkdir -p "$kept"
        cp "${rows[@]}" "$kept"
        printf '%s\n' "${rows[@]/#"${1%/}"/$kept}"
        list_runs "$1" config.json
    else
        find_runs "$1" config.json
    fi
    for run in "${runs[@]}"; do
        to=$kept/${run#"${1%/}"/}
        stage=$(stage_of "$run")
        [ -z "$stage" ] || to=results/metrics/$stage/$(basename "${run%-*}")
        mkdir -p "$to"
        for file in config.json env.json metrics.jsonl; do
            if [ -e "$run/$file" ]; then
                cp "$run/$file" "$to/$file.part" # a disk that is full leaves what is there
                mv "$to/$file.part" "$to/$file"
            else
                rm -f "$to/$file"
            fi
        done
        sums "$run" >"$to/weights.sha256"
        [ -s "$to/weights.sha256" ] || rm "$to/weights.sha256"
        echo "$to"
    done
}

losses() { # DIR N
    local run
    find_runs "$1" metrics.jsonl
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

validations() { # DIR
    find_runs "$1" metrics.jsonl
    awk '
        FNR == 1 {
            run = FILENAME
            sub(/\/metrics.jsonl$/, "", run)
            sub(/.*\//, "", run)
            name[++runs] = run
        }
        # What came after a place that a run went back to is not the run.
        /"kind": "(resume|rollback)"/ && match($0, /"step": [0-9]+,/) {
            back = substr($0, RSTART + 8, RLENGTH - 9) + 0
            for (s in seen) if (s + 0 > back) delete accuracy[runs, s]
        }
        # Nor is what other examples validated, which are a share of those of training, or their own.
        FNR == 1 {
            holds_out = 0
            config = FILENAME
            sub(/metrics.jsonl$/, "config.json", config)
            while ((getline line <config) > 0) if (line ~ /"holdout": *[0-9.]*[1-9]/) holds_out = 1
            close(config)
        }
        /"kind": "change"/ && index($0, holds_out ? "\"data.train\"" : "\"data.val\"") {
            for (s in seen) delete accuracy[runs, s]
        }
        /"kind": "val"/ && match($0, /"step": [0-9]+,/) {
            step = substr($0, RSTART + 8, RLENGTH - 9) + 0
            if (!(step in seen)) order[++steps] = step
            for (i = steps; !(step in seen) && i > 1 && order[i - 1] > step; i--) {
                order[i] = order[i - 1]
                order[i - 1] = step
            }
            seen[step] = 1
            if (match($0, /"accuracy": [0-9.e+-]+[,}]/)) accuracy[runs, step] = substr($0, RSTART + 12, RLENGTH - 13)
        }
        END {
            printf "| updates |"
            for (r = 1; r <= runs; r++) printf " %s |", name[r]
            printf "\n| ---: |"
            for (r = 1; r <= runs; r++) printf " ---: |"
            print ""
            for (i = 1; i <= steps; i++) {
                printf "| %d |", order[i]
                for (r = 1; r <= runs; r++)
                    printf (r, order[i]) in accuracy ? " %.2f |" : " - |", 100 * accuracy[r, order[i]]
                print ""
            }
        }' "${runs[@]/%//metrics.jsonl}"
}

moved() { # FILE
    awk '
        function value(text, key) {
            if (!match(text, "\"" key "\": *[0-9.e+-]+")) return "-"
            text = substr(text, RSTART, RLENGTH)
            sub(/.*: */, "", text)
            text = sprintf("%.2f", text)
            sub(/^-0\.00$/, "0.00", text)
            return text
        }
        {
            layers = split($0, layer, "\"documents\":") - 1
            row = sprintf("| %d |", value(layer[1], "step"))
            for (i = 2; i <= layers + 1; i++)
                row = row sprintf(" %s | %s | %s | %s |", value(layer[i], "moved_degrees"),
                    value(layer[i], "cosine"), value(layer[i], "cosine_largest"), value(layer[i], "entropy_bits"))
            rows[++n] = row
            step[n] = value(layer[1], "step") + 0
        }
        END {
            head = "| updates |"
            rule = "| ---: |"
            for (i = 0; i < layers; i++) {
                head = head sprintf(" layer %d: moved, degrees | cosine | largest | entropy, bits |", i)
                rule = rule " ---: | ---: | ---: | ---: |"
            }
            print head "\n" rule
            for (done = 0; done < n; done++) {
                least = 0
                for (i = 1; i <= n; i++) if (rows[i] != "" && (!least || step[i] < step[least])) least = i
                print rows[least]
                rows[least] = ""
            }
        }' "$1"
}

heads() { # FILE ATTENTION
    awk -v attention="$2" '
        function value(text, key) {
            if (!match(text, "\"" key "\": *[0-9.e+-]+")) return "-"
            text = substr(text, RSTART, RLENGTH)
            sub(/.*: */, "", text)
            return text
        }
        function percent(text, key,    x) {
            x = value(text, key)
            return x == "-" ? x : sprintf("%.1f", 100 * x)
        }
        $0 ~ "\"type\": ?\"" attention "\"" && match($0, /"heads": ?\[/) {
            n = split(substr($0, RSTART), of, "}") - 1
            head = head sprintf(" %s clusters: error, %% | kept, %% |", value($0, "clusters"))
            rule = rule " ---: | ---: |"
            for (rows = 0; rows < n && of[rows + 1] ~ /"layer":/; rows++) {
                name[rows] = value(of[rows + 1], "layer") "." value(of[rows + 1], "head")
                row[rows] = row[rows] sprintf(" %s | %s |", percent(of[rows + 1], "error"), percent(of[rows + 1], "kept"))
            }
        }
        END {
            if (!rows) { print FILENAME ": no row of " attention >"/dev/stderr"; exit 1 }
            print "| layer.head |" head "\n| ---: |" rule
            for (i = 0; i < rows; i++) print "| " name[i] " |" row[i]
        }' "$1"
}

curves() { # PAIRS N FILE FILE...: PAIRS 0: held against the first file; 1: every second against the one before it
    [[ $2 =~ ^[1-9][0-9]*$ ]] || { echo "results.sh: N must be a whole number above 0, got '$2'" >&2; exit 64; }
    awk -v pairs="$1" -v n="$2" '
        # The sum of the losses of n updates, or 0 where not all are there.
        function sum(f, to,    i, all) {
            for (i = to - n + 1; i <= to; i++) {
                if (!((f, i) in loss)) return 0
                all += loss[f, i]
            }
            return all
        }
        function largest(f, of, to,    i, off, most) {
            for (i = to - n + 1; i <= to; i++) {
                off = loss[f, i] / loss[of, i] - 1
                if (off < 0) off = -off
                if (off > most) most = off
            }
            return most
        }
        function row(to,    f, of, a, b, ours, theirs, short) {
            for (f = 1; f <= files; f++) {
                of = pairs ? f - 1 + f % 2 : 1
                a = sum(f, to)
                b = sum(of, to)
                if (f == of) theirs += a
                else ours += a
                if (!a || !b) short = 1
                if (f == of) printf a ? " %.5f |" : " - |", a / n
                else if (a && b) printf " %+.2f %% | %.0e |", 100 * (a / b - 1), largest(f, of, to)
                else printf " - | - |"
            }
            if (pairs && short) printf " - |"
            else if (pairs) printf " %+.2f %% |", 100 * (ours / theirs - 1)
        }
        FNR == 1 {
            name[++files] = FILENAME
            gsub(/.*\/|\.jsonl$/, "", name[files])
        }
        # Behind a number comes a comma or a brace, or the line is torn. A loss of null is none.
        /"kind": "train"/ && match($0, /"step": [0-9]+[,}]/) {
            step = substr($0, RSTART + 8, RLENGTH - 9) + 0
            if (!match($0, /"loss": [0-9.e+-]+[,}]/)) next
            loss[files, step] = substr($0, RSTART + 8, RLENGTH - 9)
            if (step > last) last = step
        }
        END {
            if (files != ARGC - 1) { print "results.sh: a file without lines, or that is not there" >"/dev/stderr"; exit 66 }
            printf "| updates up to |"
            rule = "| ---: |"
            for (f = 1; f <= files; f++) {
                compared = pairs ? f % 2 == 0 : f > 1
                printf compared ? " %s | largest |" : " %s |", name[f]
                rule = rule (compared ? " ---: | ---: |" : " ---: |")
            }
            print pairs ? " all |\n" rule " ---: |" : "\n" rule
            for (to = n; to <= last; to += n) {
                printf "| %d |", to
                row(to)
                print ""
            }
        }' "${@:3}"
}

case $#,${1-} in
    0,) rebuild_all README.md docs/*.md results/*.md results/*/README.md ;;
    *,*.md) rebuild_all "$@" ;;
    [23],keep) keep "${@:2}" ;;
    3,losses) losses "$2" "$3" ;;
    2,validations) validations "$2" ;;
    2,moved) moved "$2" ;;
    3,heads) heads "$2" "$3" ;;
    [4-9],windows | [1-9][0-9],windows) curves 0 "${@:2}" ;;
    [468],pairs | [1-9][02468],pairs) curves 1 "${@:2}" ;;
    *) sed -n '/^#   /s/^# \{0,1\}//p' scripts/results.sh >&2; exit 64 ;;
esac
