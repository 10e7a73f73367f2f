#!/bin/bash
# Documents name what is there: files, C names, config keys and their defaults, links; in lines of at most 120 columns.
#
# A path in backticks is one of the root, of src/ or beside the page; NAME and TASK in it stand for anything. A row of
# a table that begins with a key has its default behind it; in docs/method.md that of the mechanism it is about. Of
# blocks of code only keys are looked at, and nothing of what scripts/results.sh makes.
set -u
. tests/training.sh

# What a page says, a line each: number, kind, text.
facts() { # PAGE
    LC_ALL=C awk '
        function tell(kind, text) { print FNR, kind, text }
        /^<!-- end -->$/ { made = 0 }
        /^<!-- made by: / { made = 1 }
        made || /^<!--/ { next }
        /^ *```/ { fence = !fence; next }
        fence {
            for (line = $0; match(line, /[a-z]+\.[a-z0-9_.]+=/); line = substr(line, RSTART + RLENGTH))
                tell("key", substr(line, RSTART, RLENGTH - 1))
            next
        }
        /^#+ / { tell("heading", tolower($0)) }
        /^[|] `(model|train|data)\.[a-z0-9_.]+` [|] [^|]/ {
            split($0, cell, / *[|] */)
            gsub(/`/, "", cell[2])
            tell("default", cell[2] " " cell[3])
        }
        {
            wide = $0
            gsub(/[\200-\277]/, "", wide)
            if (length(wide) > 120 && !/^[|]/ && !/^!?\[[^]]*\]\([^)]*\)$/) tell("wide", length(wide) " columns, at most 120")
            pieces = split($0, piece, /`/)
            if (pieces && pieces % 2 == 0) tell("open", "code that goes on in the next line")
            prose = ""
            for (i = 1; i <= pieces; i++)
                if (i % 2) prose = prose piece[i]
                else tell("code", piece[i])
            for (; match(prose, /\]\([^)]*\)/); prose = substr(prose, RSTART + RLENGTH))
                tell("link", substr(prose, RSTART + 2, RLENGTH - 3))
        }' "$1"
}

# "key default" of every key, those of all mechanisms.
"$bin/cast_train" --help keys | sed -nE 's/^  ((task|(data|train|model)\.[a-z0-9_.]+)) .*\((.*; )?(default (.*)|required)\)$/\1 \6/p' >"$tmp/keys"

anchors() { facts "$1" | sed -n 's/^[0-9]* heading #* //p' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'; }
is_there() { # PATH PAGE
    local from found
    for from in . src "$(dirname "$2")"; do
        found=$(compgen -G "$from/${1//@(NAME|TASK)/*}" | head -n 1)
        [ -e "$found" ] && return
    done
}
is_linked() { # TARGET PAGE
    local file=${1%%#*}
    [[ $1 =~ ^(https?|mailto): ]] && return
    file=${file:+$(dirname "$2")/$file}
    file=${file:-$2}
    [ -e "$file" ] && { [[ $1 != *#* ]] || anchors "$file" | grep -qxF -- "${1#*#}"; }
}
is_key() { grep -qE "^${1//./\\.}[. ]" "$tmp/keys"; } # or the beginning of keys

shopt -s extglob
path='^[A-Za-z0-9_.*-]*/([A-Za-z0-9_./*-]*\.[a-z]+|([A-Za-z0-9_.*-]+/)*)$'
c_name='^([a-z][a-z0-9]+(_[a-z0-9][a-z0-9]+)+|[A-Z][A-Z0-9]*_[A-Z0-9_]+)(\(.*\))?$|^([a-z][a-z0-9_]*)\(\)$|^([A-Z][a-z0-9]+([A-Z][a-z0-9]*)+)$'
member='^([A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*)\.([a-z_]+)$'
key='(^|[^A-Za-z0-9_./-])((model|train|data)\.[a-z0-9_.]*[a-z0-9_])(.*)$'
check_code() { # TEXT PAGE: prints what is wrong
    local rest=$1
    if [[ $1 =~ $path ]]; then
        is_there "$1" "$2" || echo "no file $1"
    elif [[ $1 =~ $c_name ]]; then
        grep -rqwF --include='*.[ch]' --include='*.py' -- "${1%%\(*}" src tests scripts || echo "no ${1%%\(*} in the sources"
    elif [[ $1 =~ $member ]]; then
        sed -n "/struct ${BASH_REMATCH[1]} {/,/^}/p" src/*/*.[ch] | grep -qw "${BASH_REMATCH[2]}" || echo "no $1 in src"
    fi
    while [[ $rest =~ $key ]]; do
        rest=${BASH_REMATCH[4]}
        set -- "${BASH_REMATCH[2]}"
        [[ $1 =~ \.(c|h|py|md|json|safetensors)$ ]] || is_key "$1" || echo "no key $1"
    done
}
findings() { # PAGE
    local line kind text
    facts "$1" | while read -r line kind text; do
        case $kind in
        code) check_code "$text" "$1" ;;
        key) check_code "$text=" "$1" ;;
        default) grep -qxF -- "$text" "$tmp/keys" || echo "not the default: $text" ;;
        link) is_linked "$text" "$1" || echo "no target $text" ;;
        wide | open) echo "$text" ;;
        esac | sed "s|^|${1##*/}:$line: |"
    done
}
sound() { ! findings "$1" | grep .; }
named() { # what sources name of documents
    local file page step
    grep -roE 'docs/[a-z_]+\.md(, steps? [0-9]+)?' src tests scripts Makefile | grep -v documents.sh | while IFS=: read -r file page; do
        step=${page##* }
        page=${page%%,*}
        [ -e "$page" ] || echo "$file: no $page"
        [[ $step != +([0-9]) ]] || grep -qE "^$step\. " "$page" || echo "$file: no step $step in $page"
    done | sort -u
}

cat >"$tmp/planted.md" <<'END'
# Planted
`src/core/nowhere.c` `src/nowhere/` `core/rng.h` `src/data/NAME.c` `src/data/NAME.py`
`rng_nowhere(x)` `rnghere()` `RngNowhere` `RNG_NOWHERE` `rng_subkey(key, x)` `RngKey` `Arena.used` `Arena.nowhere`
`model.nowhere` `train.batch=2 train.nowhere=3` `train.safetensors`
| `model.depth` | 3 | |
| `model.d` | 128 | |
[a](nowhere.md) [b](#nowhere) [c](#planted) [d](https://example.org)
`not
closed`
A line which goes on and on, up to the place where a page that is read in a terminal of that width would end, and beyond.
| A line which goes on and on, up to the place where a page that is read in a terminal of that width would end, and beyond. |
```
cast_train data.nowhere=1; a line which goes on and on, up to the place where a page in a terminal of that width would end
```
<!-- made by: nothing -->
`src/nowhere.c`
<!-- end -->
END
planted() { diff <(findings "$tmp/planted.md") -; } # under check, like the pages: a local of its would hide ours
check "what is planted is found, and nothing else" planted <<'END'
planted.md:2: no file src/core/nowhere.c
planted.md:2: no file src/nowhere/
planted.md:2: no file src/data/NAME.py
planted.md:3: no rng_nowhere in the sources
planted.md:3: no rnghere in the sources
planted.md:3: no RngNowhere in the sources
planted.md:3: no RNG_NOWHERE in the sources
planted.md:3: no Arena.nowhere in src
planted.md:4: no key model.nowhere
planted.md:4: no key train.nowhere
planted.md:5: not the default: model.depth 3
planted.md:7: no target nowhere.md
planted.md:7: no target #nowhere
planted.md:8: code that goes on in the next line
planted.md:9: code that goes on in the next line
planted.md:10: 121 columns, at most 120
planted.md:13: no key data.nowhere
END
for page in docs/*.md README.md CHANGELOG.md CONTRIBUTING.md data/README.md scripts/reference/README.md results/*.md results/weights/README.md; do
    check "$page" sound "$page"
done
check "what sources name of documents" diff /dev/null <(named)

# Every mechanism that there is has an entry of its own in docs/method.md.
described() { # described: mechanisms without one
    local mechanism n=0
    while read -r mechanism; do
        n=$((n + 1))
        grep -qx "### $mechanism" docs/method.md || echo "no entry for $mechanism"
    done < <("$bin/cast_train" --help keys | sed -nE 's/^  model.attention.type=([a-z0-9-]+):.*/\1/p')
    [ $n -ge 12 ] || echo "--help keys lists $n mechanisms"
}
check "every mechanism is in docs/method.md" diff /dev/null <(described)

# Keys of mechanisms, as "mechanism key default". A page has them in tables below "## Mechanisms", some behind
# model.attention.; an entry that says "Keys: those of [NAME]" has NAME's, too.
keys_of_program() {
    "$bin/cast_train" --help keys | LC_ALL=C awk '
        /^  model\.attention\.type=/ { split($1, part, /[=:]/); mechanism = part[2]; next }
        /^$/ { mechanism = "" }
        mechanism && match($0, /(\(|; )default .*\)$/) {
            value = substr($0, RSTART)
            gsub(/^.*default |\)$/, "", value)
            sub(/.*\./, "", $1)
            print mechanism, $1, value
        }' | sort
}
keys_of_page() { # keys_of_page PAGE
    LC_ALL=C awk '
        function tell(row) { print mechanism, row; rows[mechanism] = rows[mechanism] row "\n" }
        /^## / { inside = $0 == "## Mechanisms" }
        /^### / { mechanism = $2 }
        !inside { next }
        match($0, /Keys: those of \[[a-z-]+\]/) {
            n = split(rows[substr($0, RSTART + 16, RLENGTH - 17)], row, "\n")
            for (i = 1; i < n; i++) tell(row[i])
        }
        /^[|] `[a-z_.]+` [|] [^|]/ {
            split($0, cell, / *[|] */)
            gsub(/`|model\.attention\./, "", cell[2])
            tell(cell[2] " " cell[3])
        }' "$1" | sort
}
cat >"$tmp/mechanisms.md" <<'END'
## Mechanisms
### one
| key | default | |
| --- | --- | --- |
| `model.attention.cluster_size` | "fixed" | |
### other-one
All that is new. Keys: those of [one](#one), and
| `top_k` | 32 | |
## The model
### Keys
| `top_k` | 33 | |
END
check "what a page says of keys of mechanisms" diff <(keys_of_page "$tmp/mechanisms.md") - <<'END'
one cluster_size "fixed"
other-one cluster_size "fixed"
other-one top_k 32
END
check "mechanisms have the keys and defaults of docs/method.md" \
    diff <(keys_of_page docs/method.md) <(keys_of_program | grep . || echo "--help keys lists none")

# Every task but "custom", whose sizes are its data's, where sizes of tasks are told.
told() { # told: tasks that some place lacks
    local task n=0
    for task in $("$bin/cast_train" --help | sed -n 's/^tasks  *//p'); do
        n=$((n + 1))
        [ "$task" != custom ] || continue
        grep -q "^| \`$task\` |" data/README.md || echo "no row for $task in data/README.md"
        grep -q "^    \"$task\": Task(" scripts/reference/config.py || echo "no row for $task in config.py"
    done
    [ $n -ge 7 ] || echo "--help lists $n tasks"
}
check "every task is told of" diff /dev/null <(told)

# Numbers in tests that a script makes are what it makes, but for how clang-format breaks lines.
if python3 -c '' 2>/dev/null; then
    check "tests/streams.h is of scripts/reference/streams.py" \
        cmp <(tr -d ' \n*' <tests/streams.h) <(python3 scripts/reference/streams.py | tr -d ' \n*')
else
    echo "ok - # SKIP no python3: tests/streams.h is not made again"
fi

# What a version wrote is kept for those after it; the citation names the one at hand.
versions() { # versions: what is wrong
    local now version n=0
    now=$(sed -n 's/^#define CAST_VERSION "\(.*\)"$/\1/p' src/core/version.h)
    grep -qx "version: ${now:-none}" CITATION.cff || echo "CITATION.cff: not version $now"
    while read -r version; do
        n=$((n + 1))
        [ "$version" = "$now" ] || [ -d "tests/compat/$version" ] || echo "no tests/compat/$version"
    done < <(sed -nE 's/^## ([0-9.]+),.*/\1/p' CHANGELOG.md)
    [ $n -ge 2 ] || echo "CHANGELOG.md lists $n versions"
}
check "every version before this one left files" diff /dev/null <(versions)
