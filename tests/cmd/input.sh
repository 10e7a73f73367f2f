#!/bin/bash
# cast_eval --input: examples of one's own of each kind, and what is refused.
set -u
. tests/training.sh

# A run of a task on a small set: run TASK [key=value...]
run() {
    "$bin/cast_data" generate "$1" --train 8 --val 4 --test 6 --out "$tmp/data/$1" "${@:2}" >"$tmp/log" 2>&1
    echo "{ \"task\": \"$1\", \"data\": { \"dir\": \"$tmp/data/$1\" } }" >"$tmp/$1.json"
    "$bin/cast_train" "$tmp/$1.json" train.steps=2 train.batch=4 train.warmup=0 model.d=8 model.d_emb=8 model.d_ff=8 \
        --out "$tmp/$1" >"$tmp/log" 2>&1
    result $? "a run of $1" "$tmp/log"
}
predict() { "$bin/cast_eval" "$tmp/$1" --input "${@:2}"; }

# ---- expressions ----

run listops --length 8..32 --depth 2
printf 'Source\tTarget\n( ( [MAX 1 ) 2 ) ]\t2\n\n[MIN 3 [MAX 4 5 ] ]\n' >"$tmp/some.tsv"
expect 66 'no_such: cannot be read' "a file that is not there" predict listops "$tmp/no_such"
sed -i 's/( ( \[MAX 1 ) 2 ) \]/( ( ( [MAX 1 ) 2 ) ] )/' "$tmp/some.tsv"
expect 0 '^ +[0-9.]+ % +[0-9] +line 2$' "expressions, a line each" predict listops "$tmp/some.tsv" --predict "$tmp/some.csv"
check "blank lines are none" grep -q '2 examples in' "$tmp/out"
check "each with its line" grep -qE '^1,,[0-9],.*,line 4$' "$tmp/some.csv"
expect 0 'line 1$' "of standard input" bash -c "echo '[MAX 1 2 ]' | '$bin/cast_eval' '$tmp/listops' --input -"
expect 65 'standard input: line 1: not well-formed' "no expression" \
    bash -c "echo '[MAX 1' | '$bin/cast_eval' '$tmp/listops' --input -"
: >"$tmp/empty.txt"
expect 66 'empty.txt: holds no example' "an empty file" "$bin/cast_eval" "$tmp/listops" --input "$tmp/empty.txt"
expect 66 'standard input: is empty' "nothing" bash -c "'$bin/cast_eval' '$tmp/listops' --input - </dev/null"
expect 66 'is a directory; of listops a file' "a directory of lines" predict listops "$tmp/data"
expect 64 'a line is an example anyway' "lines of lines" predict listops "$tmp/some.tsv" --lines

# A prepared split, with labels or without, gives what the split itself gives.
"$bin/cast_eval" "$tmp/listops" --predict "$tmp/split.csv" >"$tmp/log" 2>&1
expect 0 'example 5$' "a prepared set" predict listops "$tmp/data/listops" --predict "$tmp/set.csv"
same() { cut -d, -f1,3-13 "$1" | tail -n +2 >"$tmp/a"; cut -d, -f1,3-13 "$2" | tail -n +2 >"$tmp/b"; cmp "$tmp/a" "$tmp/b"; }
check "is the split itself" same "$tmp/split.csv" "$tmp/set.csv"
if python3 -c 'import struct, json' 2>/dev/null; then
    python3 - "$tmp/data/listops/test.safetensors" "$tmp/bare.safetensors" <<'END'
import json, struct, sys
data = open(sys.argv[1], 'rb').read()
n = struct.unpack('<Q', data[:8])[0]
head = json.loads(data[8:8 + n])
meta = {k: v for k, v in head['__metadata__'].items() if k in ('vocab', 'classes')}
body, out = b'', {'__metadata__': meta}
for name in ('offsets', 'tokens'):
    at, end = head[name]['data_offsets']
    out[name] = {**head[name], 'data_offsets': [len(body), len(body) + end - at]}
    body += data[8 + n + at:8 + n + end]
text = json.dumps(out).encode()
text += b' ' * (-len(text) % 8)
open(sys.argv[2], 'wb').write(struct.pack('<Q', len(text)) + text + body)
END
    # One digit is another: nothing but the hash tells.
    python3 - "$tmp/data/listops/test.safetensors" "$tmp/hurt.safetensors" <<'END'
import json, struct, sys
data = bytearray(open(sys.argv[1], 'rb').read())
n = struct.unpack('<Q', data[:8])[0]
at, end = json.loads(data[8:8 + n])['tokens']['data_offsets']
place = next(i for i in range(8 + n + at, 8 + n + end) if data[i] == 7)
data[place] = 8
open(sys.argv[2], 'wb').write(data)
END
    expect 65 'hurt.safetensors.*damaged' "a damaged one" predict listops "$tmp/hurt.safetensors"
    expect 0 'example 5$' "one without labels" predict listops "$tmp/bare.safetensors" --predict "$tmp/bare.csv"
    check "is the same" same "$tmp/split.csv" "$tmp/bare.csv"
    make_split "$tmp/unknown.safetensors" listops 6 30 1
    edit "$tmp/unknown.safetensors" labels '\xff\xff\xff\xff'
    expect 0 'example 5$' "one whose first label is -1" predict listops "$tmp/unknown.safetensors"
    expect 65 'tensor .labels. .* is missing' "which is no set to be tested on" bash -c "mkdir -p '$tmp/bare' &&
        cp '$tmp/bare.safetensors' '$tmp/bare/test.safetensors' && '$bin/cast_eval' '$tmp/listops' data.dir='$tmp/bare'"
fi

# The same numbers as a task of one's own, whose ids are written as such, of one digit and of two.
sed 's/"listops"/"custom"/' "$tmp/listops.json" >"$tmp/custom.json"
mkdir -p "$tmp/own" && cp "$tmp/data/listops"/*.safetensors "$tmp/own"
"$bin/cast_train" "$tmp/custom.json" data.dir="$tmp/own" train.steps=2 train.batch=4 train.warmup=0 model.d=8 model.d_emb=8 \
    model.d_ff=8 --out "$tmp/custom" >"$tmp/log" 2>&1
result $? "a run of custom" "$tmp/log"
make_data "$tmp/own-pairs" retrieval 8 4 4 20
"$bin/cast_train" "$tmp/custom.json" data.dir="$tmp/own-pairs" train.steps=2 train.batch=4 train.warmup=0 model.d=8 \
    model.d_emb=8 model.d_ff=8 --out "$tmp/custom-pairs" >"$tmp/log" 2>&1
result $? "and one of pairs" "$tmp/log"
printf '1 2\t3\n 4\t 5 6 \n' >"$tmp/ids-pairs.txt"
expect 0 'line 2$' "pairs of ids" predict custom-pairs "$tmp/ids-pairs.txt"
for line in '1 2\t  ' '  \t1 2' '\t1'; do
    printf '%b\n' "$line" >"$tmp/half.txt"
    expect 65 'half.txt: line 1: a column is empty' "of which one is blank ($line)" predict custom-pairs "$tmp/half.txt"
done
if python3 -c 'import struct, json' 2>/dev/null; then
    python3 - "$tmp/own/test.safetensors" >"$tmp/ids.txt" <<'END'
import json, struct, sys
data = open(sys.argv[1], 'rb').read()
n = struct.unpack('<Q', data[:8])[0]
head = json.loads(data[8:8 + n])
at = {name: 8 + n + t['data_offsets'][0] for name, t in head.items() if name != '__metadata__'}
offsets = struct.unpack('<7q', data[at['offsets']:at['offsets'] + 56])
for a, b in zip(offsets, offsets[1:]):
    print(*data[at['tokens'] + a:at['tokens'] + b])
END
    "$bin/cast_eval" "$tmp/custom" --predict "$tmp/own.csv" >"$tmp/log" 2>&1
    expect 0 'line 6$' "lines of ids" predict custom "$tmp/ids.txt" --predict "$tmp/ids.csv"
    check "are the documents that have them" same "$tmp/own.csv" "$tmp/ids.csv"
    sed 's/ /  /g; s/^/  /; s/$/ /' "$tmp/ids.txt" >"$tmp/wide.txt"
    expect 0 'line 6$' "with more blanks" predict custom "$tmp/wide.txt" --predict "$tmp/wide.csv"
    check "are the same" same "$tmp/own.csv" "$tmp/wide.csv"
    expect 65 'line 1, byte 3: expected numbers from 0 to 15' "an id that there is not" bash -c "echo 3 16 | '$bin/cast_eval' '$tmp/custom' --input -"
    expect 65 'line 1: 2 columns between TABs, expected one' "ids behind a TAB" \
        bash -c "printf '3\t4\n' | '$bin/cast_eval' '$tmp/custom' --input -"
else
    echo "ok - # SKIP no python3: ids of a set"
fi
expect 65 'line 1: 3 columns between TABs, expected an expression' "an expression in more columns" \
    bash -c "printf '[MAX 1 2 ]\t2\t3\n' | '$bin/cast_eval' '$tmp/listops' --input -"

expect 64 'of a prepared split examples are told apart' "lines of one" predict listops "$tmp/data/listops" --lines
expect 0 'example 3$' "another split" predict listops "$tmp/data/listops" --split val
check "which has as many" grep -q '^4 examples in' "$tmp/out"
expect 64 'no directory with prepared splits' "a split of what has none" predict listops "$tmp/some.tsv" --split val

# ---- pictures ----

run pathfinder
"$bin/cast_data" show "$tmp/data/pathfinder" --index 2 --png "$tmp/one.png" >"$tmp/log" 2>&1
predict pathfinder "$tmp/data/pathfinder" --split train --predict "$tmp/train.csv" >"$tmp/log" 2>&1
predict pathfinder "$tmp/one.png" --predict "$tmp/one.csv" >"$tmp/log" 2>&1
equal "a picture of the set is its example" "$(grep '^2,' "$tmp/train.csv" | cut -d, -f3-5)" "$(grep '^0,' "$tmp/one.csv" | cut -d, -f3-5)"
expect 0 '^ +[0-9.]+ % +[01] .* one.png$' "a picture" bash -c "cd '$tmp' && '$bin/cast_eval' pathfinder --input one.png"
expect 0 '"class":"' "as JSON" predict pathfinder "$tmp/one.png" --json
check "on one line" bash -c "tail -1 '$tmp/out' | grep -q '^{.*}\$'"
if python3 -c 'import struct, zlib' 2>/dev/null; then
    # The same values as grey of 8 bits, of 16, in colour, and with a gamma: all are one picture.
    python3 - "$tmp/same" "$tmp/levels" <<'END'
import struct, sys, zlib
def chunk(kind, body):
    return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))
def write(name, depth, colour, pixel, extra=b''):
    rows = b''.join(b'\0' + b''.join(pixel((7 * x + 5 * y) % 256) for x in range(32)) for y in range(32))
    with open(name, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 32, 32, depth, colour, 0, 0, 0)) + extra
                + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
to = sys.argv[1]
write(to + '-grey.png', 8, 0, lambda v: bytes([v]))
write(to + '-deep.png', 16, 0, lambda v: bytes([v, v]))
write(to + '-rgb.png', 8, 2, lambda v: bytes([v, v, v]))
write(to + '-alpha.png', 8, 4, lambda v: bytes([v, 255]))
if len(sys.argv) > 2:  # (100 R, 100 G, 200 B) is level 111 of grey: .299 R + .587 G + .114 B
    write(sys.argv[2] + '-level.png', 8, 0, lambda v: b'\x6f' if v < 90 else b'\x00')
    write(sys.argv[2] + '-colour.png', 8, 2, lambda v: b'\x64\x64\xc8' if v < 90 else b'\0\0\0')
write(to + '-gamma.png', 8, 0, lambda v: bytes([v]), chunk(b'gAMA', struct.pack('>I', 100000)))
END
    mkdir "$tmp/pictures" && mv "$tmp"/same-*.png "$tmp/pictures"
    expect 0 'same-rgb.png$' "pictures of every kind" predict pathfinder "$tmp/pictures" --predict "$tmp/same.csv"
    check "of the same values are the same" test "$(cut -d, -f3-5 "$tmp/same.csv" | tail -n +2 | sort -u | wc -l)" = 1
    mkdir "$tmp/colours" && mv "$tmp"/levels-*.png "$tmp/colours"
    expect 0 'levels-level.png$' "a picture in colours, and its grey" predict pathfinder "$tmp/colours" --predict "$tmp/levels.csv"
    check "are the same" test "$(cut -d, -f3-5 "$tmp/levels.csv" | tail -n +2 | sort -u | wc -l)" = 1
else
    echo "ok - # SKIP no python3: pictures of every kind"
fi
expect 65 'some.tsv: no PNG image' "no picture" predict pathfinder "$tmp/some.tsv"
expect 66 "has no file [*].png" "a directory without any" predict pathfinder "$tmp/data"

# ---- texts, and pairs of them ----

mkdir -p "$tmp/texts" "$tmp/data/text"
printf 'short' >"$tmp/texts/a.txt"
printf 'a longer text\nof two lines\n' >"$tmp/texts/b.txt"
small=(model.max_length=64 model.attention.clusters=4 model.attention.cluster_size=16 model.d=8 model.d_emb=8 model.d_ff=8)
fast() { (cd "$tmp" && "$bin/cast_train" "$1" --fast "${small[@]}" --out "$tmp/$1"); }
fast text >"$tmp/log" 2>&1
result $? "a run of text" "$tmp/log"
expect 0 "(negative|positive) +.*texts/b.txt$" "a file each" predict text "$tmp/texts"
expect 0 'line 2$' "a line each" predict text "$tmp/texts/b.txt" --lines
expect 0 'document is longer than the [0-9]+ tokens' "more than it reads is said" \
    bash -c "head -c 20000 /dev/zero | tr '\\0' x | '$bin/cast_eval' '$tmp/text' --input -"
fast retrieval >"$tmp/log" 2>&1
result $? "a run of retrieval" "$tmp/log"
printf 'one text\tanother\n1.0\tA1\tB2\tone text\tanother\n' >"$tmp/pairs.tsv"
expect 0 'line 2$' "pairs of texts" predict retrieval "$tmp/pairs.tsv" --predict "$tmp/pairs.csv"
check "with LRA's columns or without" test "$(cut -d, -f3-5 "$tmp/pairs.csv" | tail -n +2 | sort -u | wc -l)" = 1
expect 65 'line 1: 1 columns, expected two texts' "one text" predict retrieval "$tmp/texts/a.txt"

# ---- what does not go together ----

expect 64 'lines is of --input' "lines of a split" "$bin/cast_eval" "$tmp/listops" --lines
expect 64 'takes no --approximation or --limit' "a part of them" predict listops "$tmp/some.tsv" --limit 1
