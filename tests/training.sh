# Sourced by tests of programs that train: tiny prepared data, and checks that print TAP. $CAST_BIN is where
# programs are, build/release as it stands.
# shellcheck shell=bash
umask 022 # other users read what some tests make
tmp=$(mktemp -d) || exit 1
# A background command is bash until it runs the program: a signal then runs this trap in that child, which must leave
# the directory.
clean_up() { if [ $BASHPID = $$ ]; then rm -rf "$tmp"; fi; }
trap clean_up EXIT
CAST_BIN=$(realpath "${CAST_BIN:-build/release}")
export CAST_BIN
export bin=$CAST_BIN
unset CAST_DATA NO_COLOR CLICOLOR_FORCE COLUMNS CDPATH OMP_NUM_THREADS OMP_THREAD_LIMIT OPENBLAS_CORETYPE
unset "${!SLURM_@}"
export LC_ALL=C.UTF-8

put() { # put BYTES VALUE: little-endian, appended to $bytes as escapes
    local i v=$2
    for ((i = 0; i < $1; i++, v >>= 8)); do printf -v bytes '%s\\x%02x' "$bytes" $((v & 255)); done
}

# Safetensors of that header, and of $bytes, which are none then.
put_file() { # put_file FILE HEADER
    local body=$bytes
    bytes=''
    put 8 ${#2}
    { printf '%b' "$bytes"; printf '%s' "$2"; printf '%b' "$body"; } >"$1"
    bytes=''
}

# A prepared split of random documents of 1 to LONGEST tokens (the first has one), an example each; for retrieval
# as many random pairs of them.
make_split() { # make_split FILE TASK DOCUMENTS LONGEST SEED
    local file=$1 task=$2 documents=$3 longest=$4 vocab=16 classes=10 i n at=0 bytes='' tokens='' header
    RANDOM=$5
    case $task in
        retrieval | text) vocab=257 classes=2 ;;
        path*) vocab=256 classes=2 ;;
    esac
    put 8 0
    for ((i = 0; i < documents; i++)); do
        n=$((i == 0 ? 1 : RANDOM % longest + 1))
        put 8 $((at += n))
        for ((; n > 0; n--)); do printf -v tokens '%s\\x%02x' "$tokens" $((RANDOM % (vocab < 256 ? vocab : 256))); done
    done
    for ((i = 0; i < documents; i++)); do put 4 $((RANDOM % classes)); done
    local o=$(((documents + 1) * 8)) l=$((documents * 4)) p=0
    header="{\"offsets\":{\"dtype\":\"I64\",\"shape\":[$((documents + 1))],\"data_offsets\":[0,$o]},"
    header+="\"labels\":{\"dtype\":\"I32\",\"shape\":[$documents],\"data_offsets\":[$o,$((o + l))]},"
    if [ "$task" = retrieval ]; then
        for ((i = 0; i < 2 * documents; i++)); do put 4 $((RANDOM % documents)); done
        p=$((documents * 8))
        header+="\"pairs\":{\"dtype\":\"I32\",\"shape\":[$documents,2],\"data_offsets\":[$((o + l)),$((o + l + p))]},"
    fi
    header+="\"tokens\":{\"dtype\":\"U8\",\"shape\":[$at],\"data_offsets\":[$((o + l + p)),$((o + l + p + at))]},"
    header+="\"__metadata__\":{\"task\":\"$task\",\"vocab\":\"$vocab\",\"classes\":\"$classes\"}}"
    bytes+=$tokens
    put_file "$file" "$header"
}

make_data() { # make_data DIR TASK TRAIN VAL TEST LONGEST
    mkdir -p "$1"
    make_split "$1/train.safetensors" "$2" "$3" "$6" 1
    make_split "$1/val.safetensors" "$2" "$4" "$6" 2
    make_split "$1/test.safetensors" "$2" "$5" "$6" 3
}

# $tmp/single.json, of documents of ragged lengths, and $tmp/pairs.json, with their data.
tiny_configs() { # tiny_configs STEPS LANES
    make_data "$tmp/single" listops 24 7 5 300
    make_data "$tmp/pairs" retrieval 24 7 5 40
    cat >"$tmp/single.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/single" },
  "model": { "depth": 2, "heads": 2, "d": 32, "d_ff": 48, "d_emb": 24, "max_length": 280, "norm": "layer",
             "attention": { "clusters": 5 } },
  "train": { "steps": $1, "batch": 6, "lr": 5e-3, "schedule": "cosine", "warmup": 3, "clip": 1, "weight_decay": 0.01,
             "lanes": $2, "log_every": 3, "eval_every": 6 } }
END
    sed "s/listops/retrieval/; s#$tmp/single#$tmp/pairs#; s/280/36/" "$tmp/single.json" >"$tmp/pairs.json"
}

# Sleeps FROM to TO milliseconds, each time others ($RANDOM is drawn from fixed seeds): moments to kill something at.
nap() { # nap FROM TO
    sleep "$(printf '0.%03d' $((10#${EPOCHREALTIME: -4} % ($2 - $1) + $1)))"
}
# Writes bytes, given as escapes, over those of a tensor, from byte AT of them on; a checksum is made right again.
edit() { # edit FILE TENSOR BYTES [AT]
    local file=$1 header at crc
    header=$((8 + $(od -An -tu8 -N8 "$file")))
    at=$(head -c $header "$file" | grep -aoE "\"$2\":\{[^}]*\"data_offsets\":\[[0-9]+" | grep -oE '[0-9]+$')
    [ -n "$at" ] || { echo "not ok - edit: $file has no tensor $2"; return 1; }
    printf '%b' "$3" | dd of="$file" bs=1 seek=$((header + at + ${4:-0})) conv=notrunc 2>/dev/null
    crc=$(tail -c +$((header + 1)) "$file" | gzip -c | tail -c 8 | od -An -tx4 -N4 | tr -d ' ')
    at=$(head -c $header "$file" | grep -aob '"crc32":"' | cut -d: -f1)
    [ -z "$at" ] || printf '%s' "$crc" | dd of="$file" bs=1 seek=$((at + 9)) conv=notrunc 2>/dev/null
    sed -i 's/"header_crc32"/"header_other"/' "$file" # which is changed, and has no sum then
}
repeat() { # repeat COUNT BYTES
    local i all=''
    for ((i = 0; i < $1; i++)); do all+=$2; done
    echo "$all"
}

# The output of the command that a failed check is about, behind `not ok`.
result() { # result STATUS NAME [FILE]
    if [ "$1" -eq 0 ]; then
        echo "ok - $2"
    else
        echo "not ok - $2"
        [ -z "${3:-}" ] || sed 's/^/#   /' "$3"
    fi
}

check() { # check NAME COMMAND...
    local name=$1
    shift
    "$@" >"$tmp/check" 2>&1
    result $? "$name" "$tmp/check"
}

# Of two texts, which say something.
equal() { # equal NAME A B
    [ -n "$2" ] && [ "$2" = "$3" ]
    local wrong=$?
    printf '%s\n-- and --\n%s\n' "$2" "$3" >"$tmp/check"
    result $wrong "$1" "$tmp/check"
}

# Exit status and a line of output that matches an extended regular expression.
expect() { # expect STATUS PATTERN NAME COMMAND...
    local want=$1 pattern=$2 name=$3 status
    shift 3
    "$@" >"$tmp/out" 2>&1
    status=$?
    [ $status -eq "$want" ] && grep -qE -- "$pattern" "$tmp/out"
    local wrong=$?
    [ $wrong -eq 0 ] || echo "exit status $status; expected $want and a line with: $pattern" >>"$tmp/out"
    result $wrong "$name" "$tmp/out"
}

# Files can grow to 8 KiB. TSan keeps one of its own in $TMPDIR, grows it beyond that and dies; where it can make none, it
# does without.
with_small_files() { ( # with_small_files COMMAND...
    ulimit -f 8
    TMPDIR=/dev/null "$@"
); }

has_line() { [ -n "$1" ] && grep -qxF -- "$1" "$tmp/out"; }
lines_of() { grep -c "\"kind\": \"$2\"" "$1/metrics.jsonl"; } # lines_of DIR KIND
hash_of() { sha256sum <"$1/last.safetensors" || echo "$1 has none, at $RANDOM$RANDOM"; }
# Of metrics everything but times, speeds, memory and where processes stopped.
all_metrics_of() { # all_metrics_of DIR
    [ -s "$1/metrics.jsonl" ] || { echo "$1 has none, at $EPOCHREALTIME"; return; }
    grep -vE '"(save|resume)"' "$1/metrics.jsonl" |
        sed -E 's/, "(samples_per_s|tokens_per_s|gflops|peak_share|seconds|seconds_left|rss_mb|mapped_mb)": [^,}]*//g'
}
# The same, of each step the last line.
metrics_of() { # metrics_of DIR
    all_metrics_of "$1" |
        awk -F '[,:]' '{ line[$2 $4 ($7 ~ /which/ ? $8 : "")] = $0 } END { for (key in line) print line[key] }' | sort
}

catches() { # catches PID SIGNAL: whether it has a handler of its own for it, and is no longer bash, which has one too
    local mask
    ! [ "/proc/$1/exe" -ef /proc/$$/exe ] || return
    mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    ((0x${mask:-0} >> ($(kill -l "$2") - 1) & 1))
}

# Without the warning that all runs have on a machine of more cores than OpenBLAS has buffers for.
other_than_callers() { grep -v 'buffers for [0-9]* callers'; }
