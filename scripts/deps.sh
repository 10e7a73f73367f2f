#!/bin/sh
# deps.sh check|ensure|install [build|test|lint|all]: what the build, the tests and the linters need of the system.
#
#   check    fails if something is missing, naming the Debian package that has it
#   ensure   does nothing if nothing is missing; else as install
#   install  installs what is missing, and the optional packages too
#
# Everything is found by trying it, so any other way of installing it will do. CC, MODE, MPI, MPICC, CPPFLAGS, CFLAGS,
# LDFLAGS and LDLIBS are make's.
set -eu
usage='usage: deps.sh check|ensure|install [build|test|lint|all]'
verb=${1:?$usage}
set=${2:-build}
case $verb in check | ensure | install) ;; *) verb='' ;; esac
case $set in build | test | lint | all) ;; *) verb='' ;; esac
[ -n "$verb" ] || { echo "deps: '$*': $usage" >&2; exit 64; }
CC=${CC:-gcc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# compiles WORDS...: links standard input with these flags.
# shellcheck disable=SC2086 # lists of words
compiles() {
    $CC ${CPPFLAGS-} ${CFLAGS-} -x c - -o "$tmp/a.out" ${LDFLAGS-} "$@" ${LDLIBS-} >/dev/null 2>&1
}

# library HEADER LIBRARY: with no compiler to ask yet, the header's file decides.
library() {
    if [ -n "$compiler" ]; then
        printf '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <setjmp.h>
#include <%s>\nint main(void) { return 0; }\n' "$1" | compiles "-l$2"
    else
        for dir in /usr/include /usr/include/*-linux-gnu /usr/local/include; do
            [ ! -e "$dir/$1" ] || return 0
        done
        return 1
    fi
}

missing=''
optional=''
# lacks WHAT PACKAGE...: one line a missing thing, and its packages.
lacks() {
    what=$1
    shift
    missing="$missing $*"
    printf '%s\t%s\n' "$what" "$*" >>"$tmp/missing"
}

in_set() {
    for s; do
        [ "$set" != "$s" ] && [ "$set" != all ] || return 0
    done
    return 1
}

compiler=''
case ${MODE:-} in
asan) sanitizer=-fsanitize=address,undefined ;;
fuzz) sanitizer=-fsanitize=fuzzer-no-link,address,undefined ;;
cover) sanitizer='-fprofile-instr-generate -fcoverage-mapping' ;;
tsan) sanitizer=-fsanitize=thread ;;
*) sanitizer='' ;;
esac
empty='int main(void) { return 0; }'
# What gcc before 12 does not know.
shuffles='typedef int V __attribute__((vector_size(16)));
int main(void) { V v = {0}; return __builtin_shufflevector(v, v, 1, 0, 3, 2)[0]; }'
# shellcheck disable=SC2086 # a list of words
if echo "$shuffles" | compiles -fopenmp $sanitizer; then compiler=$CC; fi
if [ -z "$compiler" ]; then
    what="$CC with -fopenmp${sanitizer:+ $sanitizer}"
    old=''
    # shellcheck disable=SC2086
    if echo "$empty" | compiles -fopenmp $sanitizer; then old=1; fi
    case $old$CC in
    1*) lacks "gcc 12 or later ($CC is older; then: make CC=gcc-12)" gcc-12 libc6-dev ;;
    clang-[0-9]*) lacks "$what" "$CC" "libomp-${CC#clang-}-dev" "libclang-rt-${CC#clang-}-dev" libc6-dev ;;
    *clang*) lacks "$what" clang libomp-dev libclang-rt-dev libc6-dev ;;
    gcc-[0-9]*) lacks "$what" "$CC" libc6-dev ;;
    *) lacks "$what" gcc libc6-dev ;;
    esac
fi
library cblas.h openblas || lacks "OpenBLAS (cblas.h)" libopenblas-openmp-dev
library cjson/cJSON.h cjson || lacks "cJSON (cjson/cJSON.h)" libcjson-dev
library png.h png || lacks "libpng (png.h)" libpng-dev
library zlib.h z || lacks "zlib (zlib.h)" zlib1g-dev
library libxsmm.h xsmm || optional=' libxsmm-dev'
mpicc=${MPICC:-mpicc}
case $mpicc in *mpich*) mpi='libmpich-dev' ;; *) mpi='mpi-default-dev' ;; esac
[ -z "${MPI:-}" ] || command -v "${mpicc%% *}" >/dev/null || lacks "MPI ($mpicc)" $mpi
command -v curl >/dev/null || optional="$optional curl ca-certificates"
command -v gnuplot >/dev/null || optional="$optional gnuplot-nox"
if in_set test lint; then
    library cmocka.h cmocka || lacks "cmocka (cmocka.h)" libcmocka-dev
    command -v pkill >/dev/null || lacks pkill procps
    command -v strace >/dev/null || optional="$optional strace"
    command -v ip >/dev/null || optional="$optional iproute2"
    command -v mpicc >/dev/null || optional="$optional mpi-default-dev"
    python3 -c 'import numpy' 2>/dev/null || optional="$optional python3-numpy"
    python3 -c 'import PIL' 2>/dev/null || optional="$optional python3-pil"
fi
if [ "${MODE:-}" = cover ]; then
    command -v "$($CC -print-prog-name=llvm-cov)" >/dev/null || lacks llvm-cov llvm
fi
if in_set lint; then
    command -v gcc >/dev/null || lacks gcc gcc libc6-dev
    echo "$empty" | CC=clang compiles -fopenmp || lacks "clang with -fopenmp" clang libomp-dev
    command -v clang-format >/dev/null || lacks clang-format clang-format
    ctags --version 2>/dev/null | grep -q Universal || lacks "ctags, the Universal one" universal-ctags
    command -v git >/dev/null || lacks git git
    command -v shellcheck >/dev/null || lacks shellcheck shellcheck
fi

if in_set all; then
    echo "$empty" | CC=clang compiles -fsanitize=thread || lacks "clang with -fsanitize" libclang-rt-dev
fi

if [ "$verb" = check ]; then
    [ -n "$missing" ] || exit 0
    {
        while IFS="$(printf '\t')" read -r what package; do
            echo "missing: $what; Debian has it in: $package"
        done <"$tmp/missing"
        given=''
        for name in CC MPI MPICC; do
            eval "value=\${$name:-}"
            case $value in *' '*) value="'$value'" ;; esac
            [ -z "$value" ] || [ "$name=$value" = CC=gcc ] || given="$given $name=$value"
        done
        case $set in
        lint) echo "To install what is missing: make deps FOR=all" ;;
        *) echo "To install what is missing: make deps$given${sanitizer:+ MODE=$MODE}" ;;
        esac
    } >&2
    exit 1
fi

[ "$verb" = install ] || [ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
    [ -n "$missing" ] || exit 0
    echo "deps: there is no apt-get here; please install what Debian calls:$missing" >&2
    exit 1
fi
sudo=''
if [ "$(id -u)" -ne 0 ]; then
    sudo=sudo
    if ! command -v sudo >/dev/null; then
        [ -n "$missing" ] || exit 0
        echo "deps: neither root nor sudo; please run as root: apt-get install$missing" >&2
        exit 1
    fi
fi
if [ -z "$missing$optional" ]; then
    echo "deps: everything is installed already"
    exit 0
fi
echo "deps: installing with ${sudo:+sudo }apt-get:$missing${optional:+ and, where there are such,$optional}"
$sudo apt-get update -q || [ -z "$missing" ] || exit 1
# get PACKAGE...
get() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"; }
# shellcheck disable=SC2086 # a list of words
[ -z "$missing" ] || get $missing
for package in $optional; do
    apt-cache show "$package" >/dev/null 2>&1 || continue
    get "$package" || echo "deps: left out: $package" >&2
done
sh "$0" check "$set"
