#!/bin/bash
# System calls that fail: in every program each call that is unlike those before it, by the functions that led there,
# fails once with each error of the table below. The program says so and ends with a status that README.md has (1 of a
# sweep, which goes on), or gets by and ends as it always does (reports go without what they cannot read, and warn);
# files that have their names are whole; and the next start goes on. And a program whose own reads and writes take half
# of what they are asked to (short.c) gets by.
# A program that is killed in such a call leaves whole files too, and the next start goes on.
#   FAULTS=2   faults of each program that are tried, evenly spread; `all` of them takes half an hour
#   ONLY=...   of these programs alone, by names of tests/faults.sh
#
# EINTR is for fallocate and close alone: the programs' handlers have SA_RESTART, by which Linux makes other calls again
# itself. mmap is memory.sh's. Left out are what the loader does before `main` and what gnuplot does; what is told of
# the machine, in /proc and /sys, without which a program gets by; and to close a pipe, which strace would leave open,
# as it does not make the call that it lets fail.
set -u
shopt -s extglob
faults=${FAULTS:-2}
. tests/faults.sh
preload=$tmp/short.so # in a place without blanks
ln -s "$bin/tests/faults/short.so" "$preload"
if [ "${CAST_MODE:-release}" != release ]; then
    echo "ok - system calls that fail # SKIP sanitizers do not like to be traced"
    exit 0
fi
if ! strace -f -k -b execve -o /dev/null -e inject=close:error=EIO:when=99 true 2>/dev/null; then
    echo "ok - system calls that fail # SKIP no strace here, or it may not trace"
    exit 0
fi
[ -e "$preload" ] || { echo "not ok - $preload is not there"; exit 1; }
make_starts

declare -A errors=(
    [open]="EMFILE EIO ENOSPC" [openat]="EMFILE EIO ENOSPC"
    [read]=EIO [pread64]=EIO [getdents64]=EIO [lseek]=EIO
    [write]="ENOSPC EIO EDQUOT KILL" [writev]="ENOSPC EIO" [pwrite64]="ENOSPC EIO KILL"
    [fsync]="EIO ENOSPC KILL" [fdatasync]="EIO ENOSPC KILL" [close]="EIO EINTR"
    [fallocate]="ENOSPC EIO EINTR EOPNOTSUPP" [ftruncate]="EIO KILL"
    [rename]="EIO ENOSPC EXDEV EROFS KILL" [renameat]="EIO ENOSPC KILL" [renameat2]="EIO ENOSPC KILL" [link]=EIO [linkat]=EIO
    [unlink]="EIO KILL" [unlinkat]="EIO KILL" [mkdir]="ENOSPC EIO EACCES KILL" [mkdirat]="ENOSPC EIO KILL"
    [stat]=EIO [lstat]=EIO [fstat]=EIO [newfstatat]=EIO [statx]=EIO [statfs]=EIO [fstatfs]=EIO
    [flock]=ENOLCK [pipe]=EMFILE [pipe2]=EMFILE [dup2]=EMFILE [dup3]=EMFILE
    [clone]=EAGAIN [clone3]=EAGAIN [fork]=EAGAIN [vfork]=EAGAIN
)
traced=$(printf ',?%s' "${!errors[@]}")
traced=${traced#,}

# "CALL NUMBER" of each place: the NUMBER-th CALL of a process. strace puts the functions that led there below a call.
# It counts the calls of each process by themselves: a number goes that any of them has for what is left out.
list_places() { # list_places NAME
    begin "$1"
    run "$1" strace -f -qq -y -k -b execve -o "$tmp/$1.calls" -e "trace=$traced"
    awk '
        function place() {
            if (call == "") return
            if (!begun) out[call " " number] = 1
            else if (!seen[call stack]++) at[++places] = call " " number
            call = ""
        }
        /^ > / { stack = stack $0; if (/\(main\+/) begun = 1; next }
        { place(); stack = "" }
        / resumed>/ { call = waits[$1]; number = count[$1, call]; next }
        $2 !~ /^[a-z]/ { next } # a signal, an end
        { name = $2; sub(/\(.*/, "", name); number = ++count[$1, name] }
        /close\([0-9]*<pipe:|[<"]\/(proc|sys)\// { out[name " " number] = 1; waits[$1] = ""; next }
        /<unfinished / { waits[$1] = name; next }
        { call = name }
        END { place(); for (i = 1; i <= places; i++) if (!out[at[i]]++) print at[i] }' "$tmp/$1.calls" >"$tmp/$1.places"
}

# "CALL NUMBER ERROR" of those that are tried.
list_faults() { # list_faults NAME
    local call number error
    while read -r call number; do
        for error in ${errors[$call]}; do echo "$call $number $error"; done
    done <"$tmp/$1.places" |
        awk -v most="$faults" '{ line[NR] = $0 } END {
            step = most == "all" || most >= NR ? 1 : NR / most
            for (i = step; int(i) <= NR; i += step) print line[int(i)] }'
}

fail_at() { # fail_at NAME CALL NUMBER ERROR [again]
    local status verdict trace=$tmp/$1.trace what=error=$4 half began=$SECONDS
    [ "$4" != KILL ] || what=signal=KILL
    begin "$1"
    run "$1" timeout -s KILL 30 strace -f -qq -y -b execve -o "$trace" -e "trace=$2" -e "inject=$2:$what:when=$3"
    status=$?
    if [ "$4" = KILL ] && [ $status -eq 137 ] && [ $((SECONDS - began)) -lt 29 ]; then
        half=$(half_written "$1")
        if [ -z "$half" ]; then echo killed; else echo "WRONG: $half is half-written"; fi
        goes_on "$1"
        return
    fi
    verdict=$(judge "$1" $status)
    case $1-$verdict in
    # A page, a table or a card of what can be read, and what cannot.
    table-*another* | page-*another* | export-*another*) ! grep -q '^warning: ' "$tmp/$1.err" || verdict=told ;;
    # A lock's file that just now cannot be locked or removed, which goes with the next start; and nothing else.
    *another\ outcome:\ \>\ +([0-9a-f])\ \ ./*/.lock) ! grep -q '\.lock.*INJECTED' "$trace" || verdict=left ;;
    *-same | *-66 | *-71 | *-73 | *-74 | sweep-1) ;;
    *-WRONG*) ;;
    *) verdict="WRONG: status $verdict: $(tail -n 1 "$tmp/$1.err")" ;;
    esac
    # What fails to be printed cannot be told.
    [ $status -eq 0 ] || grep -q "^[0-9]* *write(2<.*INJECTED" "$trace" ||
        grep -qE '^cast_[a-z]*: |^failed   run' "$tmp/$1.err" "$tmp/$1.out" ||
        verdict="WRONG: status $status without a word: $(tail -n 1 "$tmp/$1.err")"
    # A file that cannot be read just now is not a damaged one.
    ! grep -q 'delete it' "$tmp/$1.err" || verdict="WRONG: $(tail -n 1 "$tmp/$1.err")"
    # Numbers differ by one where libxsmm of another process has its file in /tmp.
    ! grep -q 'close([0-9]*<pipe:.*INJECTED' "$trace" || verdict=unmet
    [ "$verdict" != same ] || grep -q INJECTED "$trace" || verdict=unmet
    if [ "$verdict" = unmet ] && [ -z "${5:-}" ]; then
        fail_at "$1" "$2" "$3" "$4" again
        return
    fi
    echo "$verdict"
    goes_on "$1"
}

# Counts of what came of it, and what is wrong.
try() { # try NAME
    local name=$1 call number error
    make_want "$name" || return 1
    list_places "$name"
    list_faults "$name" >"$tmp/$name.numbers"
    while read -r call number error; do
        fail_at "$name" "$call" "$number" "$error" | sed "s/^WRONG/WRONG: $call $number $error/"
    done <"$tmp/$name.numbers" >"$tmp/$name.verdicts"
    begin "$name"
    run "$name" env LD_PRELOAD="$preload" timeout -s KILL 60
    judge "$name" $? | sed "/^same$/d; s/^[0-9]/WRONG: short reads and writes: status &/" >>"$tmp/$name.verdicts"
    verdicts "$name"
}

each_run try "system calls fail in"
