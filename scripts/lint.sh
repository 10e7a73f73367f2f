#!/bin/bash
# lint.sh: what the house style asks and a machine can see. One line a finding; fails if there is any.
#
#   format      clang-format (.clang-format), in src and tests; shellcheck for scripts
#   lengths     lines of at most 100 columns, functions of at most 70 lines, files of at most 500
#   layers      a folder of src includes only folders to its left:
#               core io ops attention model optim train sweep,viz report export cmd (sweep and viz do not know each
#               other);
#               data uses core and io, and is used from train on
#   pairs       no two modules (FOLDER/NAME.c and .h) need each other
#   calls       malloc and free outside core and io; calls that overflow, that hide errors or that run a shell
#   threads     OpenMP pragmas other than `omp simd`, its functions outside core/team.c, and threads made outside core
#   leftovers   TODO, FIXME, XXX, #if 0
#   mutants     planted errors (tests/mutants) that no longer apply to the code
set -u
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '/^set/d' && exit ;; esac
unset CDPATH
cd "$(dirname "$0")/.." || exit 1
scripts/deps.sh check lint || exit # a tool that is not there finds nothing
shopt -s nullglob
src=(src/*/*.[ch])
tests=(tests/*.[ch] tests/*/*.[ch])
shell=(scripts/*.sh scripts/*.bash scripts/*/*.sh tests/*.sh tests/*/*.sh .ci/run)

# Files that may be longer than 500 lines, each with its reason: "path: reason".
long_files=()

# Modules that may need each other, each with its reason: "module module: reason".
close_pairs=()

found=$(mktemp)
trap 'rm -f "$found"' EXIT

# Code without comments and the contents of strings, as "file:line:code".
code() {
    awk '
        FNR == 1 { comment = 0 }
        {
            line = $0; out = ""
            while (line != "") {
                if (comment) {
                    end = index(line, "*/")
                    if (!end) { line = ""; continue }
                    line = substr(line, end + 2); comment = 0
                } else if (substr(line, 1, 2) == "/*") { comment = 1; line = substr(line, 3) }
                else if (substr(line, 1, 2) == "//") line = ""
                else if (match(line, /^"([^"\\]|\\.)*"/)) {
                    out = out (out ~ /^[ \t]*#[ \t]*include/ ? substr(line, 1, RLENGTH) : "\"\"")
                    line = substr(line, RLENGTH + 1)
                } else if (match(line, /^\047([^\047\\]|\\.)*\047/)) {
                    out = out "\047\047"; line = substr(line, RLENGTH + 1)
                } else { out = out substr(line, 1, 1); line = substr(line, 2) }
            }
            if (out !~ /^[ \t]*$/) print FILENAME ":" FNR ":" out
        }' "$@"
}

check_format() {
    clang-format --dump-config >/dev/null || echo ".clang-format: is not read"
    clang-format --dry-run -Werror --style=file "${src[@]}" "${tests[@]}" 2>&1 |
        sed -n 's/: error: code should be clang-formatted.*/: not as clang-format has it (make format)/p' |
        awk -F: '!seen[$1]++'
    shellcheck -x -f gcc "${shell[@]}"
}

check_lengths() {
    awk 'length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns, at most 100" }' \
        "${src[@]}" "${tests[@]}"
    ctags -x --language-force=C --kinds-C=f --_xformat='%F %n %{end} %N' "${src[@]}" "${tests[@]}" |
        awk '$3 - $2 + 1 > 70 { print $1 ":" $2 ": function " $4 " has " $3 - $2 + 1 " lines, at most 70" }'
    local file lines
    for file in "${src[@]}" "${tests[@]}"; do
        lines=$(wc -l <"$file")
        [ "$lines" -gt 500 ] || continue
        case "${long_files[*]:-}" in
        *"$file: "*) ;;
        *) echo "$file:$lines: $lines lines, at most 500 without a reason in scripts/lint.sh" ;;
        esac
    done
}

check_layers() {
    awk '
        BEGIN {
            n = split("core io ops attention model optim train sweep,viz report export cmd", order)
            for (i = 1; i <= n; i++) {
                m = split(order[i], side, ",")
                for (j = 1; j <= m; j++) rank[side[j]] = i
            }
        }
        function may(from, to) {
            if (from == to) return 1
            if (to == "data") return rank[from] >= rank["train"]
            if (from == "data") return to == "core" || to == "io"
            return rank[to] < rank[from]
        }
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            split(FILENAME, path, "/"); from = path[2]
            split($0, part, "\""); split(part[2], target, "/"); to = target[1]
            where = FILENAME ":" FNR ": "
            if (!(from in rank) && from != "data") print where "src/" from " is not a layer"
            else if (!(to in rank) && to != "data") print where "\"" part[2] "\" does not begin with a layer"
            else if (!may(from, to)) print where from " may not include \"" part[2] "\""
        }' "${src[@]}"
}

# A module needs those whose headers it includes, and those that have the functions its own header declares.
check_pairs() {
    {
        awk '/^[ \t]*#[ \t]*include[ \t]*"/ { split($0, part, "\""); print "include", FILENAME, part[2] }' "${src[@]}"
        ctags -x --language-force=C --kinds-C=p --_xformat='declare %F %N' src/*/*.h
        ctags -x --language-force=C --kinds-C=f --_xformat='define %F %N' src/*/*.c
    } | awk -v close_pairs="$(printf '%s\n' "${close_pairs[@]}")" '
        function module(path) { sub(/^src\//, "", path); sub(/\.[ch]$/, "", path); return path }
        function need(a, b) {
            needs[a, b] = 1
            if (a == b || !((b, a) in needs)) return
            if (index("\n" close_pairs, "\n" (a < b ? a " " b : b " " a) ": ")) return
            print "src/" a ".h:1: needs " b ", which needs it"
        }
        $1 == "include" { need(module($2), module($3)) }
        $1 == "declare" { home[$3] = module($2) }
        $1 == "define" && $3 in home { need(home[$3], module($2)) }'
}

# forbid PATTERN REASON FILE...: PATTERN is an extended regular expression for a name that is called.
forbid() {
    local names=$1 reason=$2
    shift 2
    [ $# -gt 0 ] || return 0
    code "$@" | grep -E "(^|[^A-Za-z0-9_.>])($names)[ ]*\(" |
        sed -E "s#^([^:]*:[0-9]+):(.*[^A-Za-z0-9_.>])?($names)[ ]*\(.*#\1: \3: $reason#"
}

check_calls() {
    local file other=()
    for file in "${src[@]}"; do
        case $file in src/core/* | src/io/*) ;; *) other+=("$file") ;; esac
    done
    forbid 'malloc|calloc|realloc|free|aligned_alloc|posix_memalign' 'use mem_* or an Arena (core/mem.h)' "${other[@]}"
    forbid 'strcpy|strcat|sprintf|vsprintf|gets|strtok' 'does not know its limits' "${src[@]}"
    forbid 'atoi|atol|atof' 'cannot report an error' "${src[@]}"
    forbid 'rand|srand|random|drand48' 'use core/rng.h' "${src[@]}"
    forbid 'system|popen' 'runs a shell' "${src[@]}"
    forbid 'assert' 'use REQUIRE for our own promises, Err for input' "${src[@]}"
}

check_threads() {
    code "${src[@]}" | grep -E '#[ ]*pragma[ ]+omp' | grep -vE 'pragma[ ]+omp[ ]+simd' |
        sed -E 's/^([^:]*:[0-9]+):.*/\1: threads live in core\/team.c/'
    code "${src[@]}" | grep -v '^src/core/team\.c:' | grep -E '\bomp_[a-z_]+ *\(' |
        sed -E 's/^([^:]*:[0-9]+):.*/\1: OpenMP is asked in core\/team.c/'
    code "${src[@]}" | grep -v '^src/core/' | grep -E '\bpthread_create *\(' |
        sed -E 's/^([^:]*:[0-9]+):.*/\1: threads are made in core/'
}

check_leftovers() {
    grep -nwE 'TODO|FIXME|XXX' "${src[@]}" "${tests[@]}" "${shell[@]}" Makefile |
        grep -v '^scripts/lint.sh:' | sed -E 's/^([^:]*:[0-9]+):.*/\1: left for later/'
    code "${src[@]}" "${tests[@]}" | grep -E '#[ ]*if[ ]+0' | sed -E 's/^([^:]*:[0-9]+):.*/\1: dead code/'
}

# Code that moves leaves its planted errors behind.
check_mutants() {
    local patch
    for patch in tests/mutants/*.patch; do
        git apply --check "$patch" 2>/dev/null || echo "$patch: does not apply any more"
    done
}

for check in format lengths layers pairs calls threads leftovers mutants; do
    "check_$check" >>"$found"
done
if [ -s "$found" ]; then
    sort -u "$found"
    echo "lint: $(sort -u "$found" | wc -l) findings" >&2
    exit 1
fi
