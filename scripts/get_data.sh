#!/bin/bash
# get_data.sh TASK [DIR]: fetches a task's official files, checks them and imports them into DIR (data/TASK).
#
#   image      CIFAR-10, binary version        170 MB   MD5 published by its authors
#   text       Large Movie Review Dataset       84 MB   MD5 known
#   retrieval  LRA's release, its tsv_data     8.2 GB   no checksum is published: the import checks what it reads
#   listops    LRA's release, its listops-1000 8.2 GB   likewise, and works out every answer again
#              (not needed: cast_data generate listops makes a set by the same rules)
#   pathfinder LRA's release, read from the archive; cast_data generate makes it too
#   pathx      LRA's release, of which one of two folders is to be unpacked and imported: data/README.md; likewise
#
# What is fetched lies in $CAST_DATA, or data/raw where that is not set, and is not fetched twice; an interrupted
# download goes on where it stopped. Where files are there already, nothing is fetched. Relative names are meant from
# where the script is called, data/raw and data/TASK are in the project.
set -u
here=$PWD
unset CDPATH
cd "$(dirname "$0")/.." || exit 1
from_here() { # from_here NAME
    if [[ $1 = /* || $here = "$PWD" ]]; then printf '%s' "$1"; else printf '%s' "$here/$1"; fi
}
root=data/raw
if [ -n "${CAST_DATA:-}" ]; then root=$(from_here "$CAST_DATA"); fi
cast_data=$(from_here "${CAST_BIN:-$PWD}")/cast_data
lra=https://storage.googleapis.com/long-range-arena/lra_release.gz

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' scripts/get_data.sh >&2
    exit 64
}
fail() { # fail STATUS MESSAGE
    echo "get_data: $2" >&2
    exit "$1"
}

if [ $# -lt 1 ] || [ $# -gt 2 ]; then usage; fi
task=$1 out=data/$1 raw=$root/$1 folder=''
if [ $# -eq 2 ]; then out=$(from_here "$2"); fi
case $task in
image) url=https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz md5=c32a1d4ab5d03f1284b67883e8d87530 ;;
text) url=https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz md5=7c2ac02c03563afcf9b574c7e56c153a ;;
retrieval) url=$lra md5='' folder=tsv_data ;;
listops) url=$lra md5='' folder=listops-1000 ;;
pathfinder | pathx) url=$lra md5='' ;;
*) usage ;;
esac
archive=$raw/${url##*/}
if [ "$url" = "$lra" ]; then archive=$root/${url##*/}; fi # of several tasks
[ -x "$cast_data" ] || fail 66 "$cast_data is not there: run 'make' first"

by_hand() { # by_hand WHY
    fail 66 "$1
Fetch it by hand, in a browser or on another machine:
  $url
put it at
  $archive
and run this again.${folder:+ Or put the folder $folder that it holds at $raw/$folder.}"
}

right() { # right FILE: whether its MD5 is the expected one
    [ "$(md5sum <"$1")" = "$md5  -" ]
}

# Several tasks are in one archive: who comes second waits, and finds what the first has left.
alone() {
    exec 9>"$archive.lock" || exit 73
    flock -n 9 || { echo "$archive: another get_data.sh is at it, waiting" && flock 9; } || exit 73
}

fetch() {
    local part=$archive.part
    [ ! -e "$archive" ] || return 0
    [ "$task" != pathx ] || echo "LRA's archive is known to hold two folders pathfinder128: if it does, this fetches 8.2 GB and" \
        "imports nothing; unpack it then, and import one of them (data/README.md)" >&2
    mkdir -p "${archive%/*}" || exit 73
    alone
    [ ! -e "$archive" ] || return 0
    command -v curl >/dev/null || by_hand "curl is not installed (Debian has it in: curl), so $url cannot be fetched."
    echo "fetching $url"
    # A part that is whole already would be an error to the server.
    if [ -z "$md5" ] || [ ! -e "$part" ] || ! right "$part"; then
        curl -fL --retry 5 --retry-delay 5 -C - --proto '=https' --proto-redir '=https' -o "$part" "$url" ||
            by_hand "$url cannot be fetched (curl says why, above)."
    fi
    mv "$part" "$archive" || exit 73
}

check() {
    if [ -z "$md5" ]; then
        echo "$archive: no checksum is published; the import checks what it reads"
    elif right "$archive"; then
        echo "$archive: MD5 $md5, as expected"
        raw=$archive # not what else may lie beside it
    else
        fail 65 "$archive: its MD5 is not $md5: it is damaged, or another version. Delete it and run this again"
    fi
}

# The one folder that is wanted of LRA's release, whose folders lie in one another; it takes its place when it is whole.
# What has none is read from the archive itself, picture by picture.
unpack() {
    if [ -z "$folder" ]; then
        if [ "$url" = "$lra" ]; then raw=$archive; fi
        return 0
    fi
    local part=$raw.part found
    [ ! -e "$raw/$folder" ] || return 0
    alone
    [ ! -e "$raw/$folder" ] || return 0
    echo "unpacking $folder of $archive"
    rm -rf "$part"
    mkdir -p "$part" "$raw" || exit 73
    if ! tar -xzf "$archive" -C "$part" --no-same-owner --wildcards "*lra_release/lra_release/$folder/*"; then
        rm -rf "$part"
        fail 65 "$archive: cannot be unpacked, or holds no lra_release/lra_release/$folder"
    fi
    found=$(find "$part" -type d -name "$folder" | head -n 1)
    mv "$found" "$raw" || exit 73
    rm -rf "$part"
}

# Files that are there already are the user's: they are imported as they are, also where LRA's release has been fetched
# for another task.
if [ -d "$raw" ] && { [ ! -e "$archive" ] || [ "$url" = "$lra" ]; }; then
    said=$("$cast_data" import "$task" "$raw" --out "$out" 2>&1)
    status=$?
    if [ $status -ne 66 ] || [[ $said != *": holds no "* ]]; then
        [ $status -eq 0 ] || exec >&2
        echo "$said"
        exit $status
    fi
fi
fetch
check
unpack
exec "$cast_data" import "$task" "$raw" --out "$out" 9>&-
