#!/bin/bash
# What `make install` leaves, used from another place; the manual, completion, and the schema of configs.
set -u
. tests/training.sh
if [ "${CAST_MODE:-release}" != release ]; then
    echo "ok - # SKIP what is installed is the release build"
    exit 0
fi
# Other tests run the programs: what was committed since they were built must not link them anew.
commit=COMMIT=$(cat build/release/commit)
make --no-print-directory install "$commit" DESTDIR="$tmp/root" PREFIX=/usr >"$tmp/log" 2>&1
result $? "make install" "$tmp/log"
usr=$tmp/root/usr share=$tmp/root/usr/share
mkdir "$tmp/elsewhere"

# ---- programs find their configs ----

expect 0 'in all +674062' "a shipped config, by name, from another directory" \
    bash -c "cd '$tmp/elsewhere' && '$usr/bin/cast_train' listops.json --dry-run"
expect 0 'in all +674062' "or beside a directory of its name" \
    bash -c "mkdir '$tmp/elsewhere/listops' && cd '$tmp/elsewhere' && '$usr/bin/cast_train' listops --dry-run"
check "a config that was copied from there" bash -c "cp '$share/cast/configs/listops_sa.json' '$share/cast/configs/listops.json' '$tmp/elsewhere' &&
    cd '$tmp/elsewhere' && '$usr/bin/cast_train' ./listops_sa.json --dry-run"

mkdir "$tmp/root/configs" && echo '{"task": "pathfinder", "model": {"depth": 1}}' >"$tmp/root/configs/pathfinder.json"
expect 0 'in all +99524' "not one of somebody else's, above the program" \
    bash -c "cd '$tmp/elsewhere' && '$usr/bin/cast_train' pathfinder --dry-run"
expect 0 ' image_sa ' "of which all are listed" "$usr/bin/cast_train" --help
rm -r "$tmp/root/configs"

# ---- documents ----

dead_links() { # DIR: relative links of its pages that lead nowhere
    local page link
    while IFS= read -r page; do
        grep -oE '\]\([^)#]+' "$page" | cut -c3- | grep -v '^https\?:' | while IFS= read -r link; do
            [ -e "${page%/*}/$link" ] || echo "$page: $link"
        done
    done < <(find "$1" -name '*.md')
}
dead_links "$share/doc/cast" >"$tmp/dead"
check "links of documents lead somewhere" diff /dev/null "$tmp/dead"
check "and there are some" grep -q '(results/paper.md)' "$share/doc/cast/README.md"

# ---- the manual ----

programs=$(cd "$usr/bin" && echo cast_*)
check "nine programs" test "$(wc -w <<<"$programs")" = 9
for p in $programs; do
    check "a page of $p" grep -q "^$p .- [a-z]" "$share/man/man1/$p.1"
    check "completion of $p" grep -q "^complete .*_cast" "$share/bash-completion/completions/$p"
done
if command -v man >/dev/null && command -v groff >/dev/null; then
    for p in $programs; do
        man --warnings -l "$share/man/man1/$p.1" >"$tmp/page" 2>"$tmp/said"
        check "man finds nothing wrong in $p" test ! -s "$tmp/said"
        check "and shows its options" grep -q -- '--help' "$tmp/page"
    done
else
    echo "ok - # SKIP man or groff is not installed"
fi

# ---- completion ----

complete_here() { # complete_here WORD BEFORE PLACE PROGRAM [WORD...]: what bash would offer
    PATH="$usr/bin:$PATH" bash -c "source '$share/bash-completion/completions/$4'
        COMP_CWORD=$3 COMP_WORDS=($4 ${5-x} ${6-x} ${7-x}); _cast '$4' '$1' '$2' 2>/dev/null; echo \"\${COMPREPLY[*]}\""
}
offers() { [ "$(complete_here "${@:2}")" = "$1" ]; }
check "an option" offers --dry-run --dr cast_train 1 cast_train
check "a shipped config" offers quickstart quick cast_train 1 cast_train
check "a key" offers train.label_smoothing= train.lab image 2 cast_train
check "a verb" offers import i cast_data 1 cast_data
check "its options" offers "--val --version" --v listops 3 cast_data generate listops
check "and its task's" offers --difficulty --dif pathfinder 3 cast_data generate pathfinder
check "a task" offers "pathfinder pathx" path generate 2 cast_data generate
check "but none to be shown" offers "" path show 2 cast_data show
check "a key's value" offers smyrf smy = 4 cast_train image model.attention.type =
check "which may be a file" offers "" da = 4 cast_train image data.dir =
check "as an option's" offers "" d --out 3 cast_train image --out
check "and a run" offers "" train 1 1 cast_eval
check "a value" offers latex l --format 3 cast_report

# ---- the schema, by a validator that is not ours ----

if python3 -c 'import jsonschema' 2>/dev/null; then
    cat >"$tmp/hold.py" <<'END'
"""hold.py SCHEMA CONFIG...: which of them are valid, a line each."""
import json, sys
from jsonschema import Draft202012Validator as Validator
schema = json.load(open(sys.argv[1]))
Validator.check_schema(schema)
for path in sys.argv[2:]:
    print('valid' if Validator(schema).is_valid(json.load(open(path))) else 'wrong', path)
END
    python3 "$tmp/hold.py" "$share/cast/config.schema.json" configs/*.json >"$tmp/held" 2>&1
    check "every shipped config is valid" test "$(grep -c ^valid "$tmp/held")" = "$(find configs -name '*.json' | wc -l)"
    # shellcheck disable=SC2016
    echo '{ "$schema": "config.schema.json", "base": "listops.json", "model": { "dropout_ffn": -1 } }' >"$tmp/elsewhere/own.json"
    check "and one that names its schema" grep -q ^valid <(python3 "$tmp/hold.py" "$share/cast/config.schema.json" "$tmp/elsewhere/own.json")
    check "which it may" "$bin/cast_train" "$tmp/elsewhere/own.json" --dry-run
    i=0
    while read -r broken; do
        i=$((i + 1))
        echo "${broken/configs/$PWD/configs}" >"$tmp/broken-$i.json"
        expect 78 'key' "$broken is no config" "$bin/cast_train" "$tmp/broken-$i.json" --dry-run --out "$tmp/none"
    done <<'END'
{}
{"task": "juggling"}
{"task": "image", "modle": {}}
{"task": "image", "model": {"depth": 0}}
{"task": "image", "model": {"depth": 1.5}}
{"task": "image", "model": {"depth": "2"}}
{"task": "image", "model": {"norm": "group"}}
{"task": "image", "model": {"conv": 4}}
{"task": "image", "model": {"attention": {"type": "fulll"}}}
{"task": "image", "model": {"attention": {"type": "full", "clusters": 4}}}
{"task": "image", "model": {"attention": {"window": 4}}}
{"task": "image", "model": {"attention": {"clusters": 0}}}
{"task": "image", "model": {"attention": {"cluster_size": "big"}}}
{"task": "image", "train": {"lr": -1}}
{"task": "image", "train": {"lr": "1"}}
{"task": "image", "train": {"shedule": "linear"}}
{"task": "image", "train": {"schedule": "step"}}
{"task": "image", "data": {"holdout": 0.1}}
{"task": "text", "data": {"holdout": 0.9}}
{"task": "image", "data": {"augment": "yes"}}
{"task": "image", "train": {"tensorboard": 1}}
{"base": 3}
{"base": "configs/text.json", "model": {"attention": {"clsters": 4}}}
{"base": "configs/text.json", "data": {"dri": "x"}}
{"base": "configs/text.json", "data": {"dir": 3}}
{"task": "image", "model": {"dropout_embed": -0.5}}
{"task": "image", "train": []}
END
    python3 "$tmp/hold.py" "$share/cast/config.schema.json" "$tmp"/broken-*.json >"$tmp/held" 2>&1
    check "nor is any valid by the schema" test "$(grep -c ^wrong "$tmp/held")" = $i
else
    echo "ok - # SKIP jsonschema is not installed for python3"
fi

# ---- and goes again ----

make --no-print-directory uninstall DESTDIR="$tmp/root" PREFIX=/usr >"$tmp/log" 2>&1
check "make uninstall leaves no file" test -z "$(find "$tmp/root" -type f)"

spaced=(DESTDIR="$tmp/a root" PREFIX="/my apps")
make --no-print-directory install "$commit" "${spaced[@]}" >"$tmp/log" 2>&1
result $? "make install where names have spaces" "$tmp/log"
check "a program" "$tmp/a root/my apps/bin/cast_data" --version
mkdir "$tmp/a" && echo mine >"$tmp/a/file"
make --no-print-directory uninstall "${spaced[@]}" >"$tmp/log" 2>&1
check "make uninstall leaves no file there" test -z "$(find "$tmp/a root" -type f)"
check "and what is not its own" test -e "$tmp/a/file"
