#!/bin/bash
# mutants.sh [PATCH...]: do the tests catch errors? Plants each of tests/mutants/*.patch, alone, in a copy of the tree,
# and expects the gradient checks, or else the tests in double, to fail; of an error in src/data, src/io or src/report
# the tests alone, because gradient checks do without. Tests of the same folder come first. Fails unless every one is
# caught.
set -u
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '/^set/d' && exit ;; esac
unset CDPATH
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- tests/mutants/*.patch
[ -e "$1" ] || { echo "mutants: no patch in tests/mutants" >&2; exit 1; }
mapfile -t patches < <(readlink -f -- "$@")

command -v git >/dev/null || { echo "mutants: git is needed, which applies the patches" >&2; exit 69; }
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
make --no-print-directory -j"$(nproc)" MODE=double tests >/dev/null || exit 1
# All but what runs and imports left here.
tar -c --exclude=./build --exclude=./runs --exclude=./.git --exclude='./data/*/*' . | tar -x -C "$tree" || exit 1
mkdir "$tree/build" && cp -a build/double "$tree/build" || exit 1
cd "$tree" || exit 1
unset MODE
export STOP=1

# Whether PATCHES change nothing but how data are read and made, and results are told.
of_data() { # of_data PATCH...
    ! grep -h '^+++ ' "$@" | grep -qvE '^\+\+\+ b/src/(data|io|report)/'
}
# Of an error in one mechanism's file, the mechanism: the tests that walk their table need no other.
mechanism_of() { # mechanism_of PATCH...
    local file
    file=$(sed -n 's#^+++ b/src/##p' "$@" | sort -u)
    [[ $file =~ ^attention/([a-z_]+)\.c$ ]] || return
    file=${BASH_REMATCH[1]//_/-}
    build/double/cast_train --help keys | grep -q "^  model.attention.type=$file:" && echo "$file"
}
# The tests of the folder that PATCH changes, built: most errors are caught there, within seconds.
near() { # near PATCH
    local folder tests
    folder=$(sed -n 's#^+++ b/src/\([a-z]*\)/.*#\1#p' "$1" | head -1)
    mapfile -t tests < <(find "tests/$folder" -name '*_*.c' 2>/dev/null | sed -n 's#\(.*/\(test\|grad\)_.*\)\.c#build/double/\1#p' | sort)
    [ ${#tests[@]} -gt 0 ] || return 0
    make --no-print-directory -j"$(nproc)" MODE=double "${tests[@]}" >"$tree/log" 2>&1 || return
    MECHANISM=$(mechanism_of "$1") scripts/test.sh double "${tests[@]}" >"$tree/log" 2>&1
}
run_tests() { # run_tests PATCH...
    local MECHANISM
    MECHANISM=$(mechanism_of "$@")
    export MECHANISM
    { of_data "$@" || make --no-print-directory gradcheck >"$tree/log" 2>&1; } &&
        make --no-print-directory MODE=double test >"$tree/log" 2>&1
}

if ! run_tests "${patches[@]}"; then
    cat "$tree/log"
    echo "mutants: the tests fail already, without any planted error" >&2
    exit 1
fi
killed=0
for patch in "${patches[@]}"; do
    name=$(basename "$patch" .patch)
    if ! git apply "$patch"; then
        echo "$name: does not apply any more"
        continue
    fi
    if near "$patch" && make --no-print-directory -j"$(nproc)" MODE=double tests >"$tree/log" 2>&1 &&
        run_tests "$patch"; then
        echo "$name: NOT CAUGHT"
    elif grep -q ' FAILED' "$tree/log"; then
        printf '%-40s caught by %s\n' "$name" "$(awk '/ FAILED/ { print $1; exit }' "$tree/log")"
        killed=$((killed + 1))
    else
        cat "$tree/log"
        echo "$name: does not build"
    fi
    git apply -R "$patch"
done
echo "$killed of ${#patches[@]} planted errors caught"
[ $killed -eq ${#patches[@]} ]
