#!/bin/bash
# cast_data show: examples that are pictures, as PNG files and on terminals. scripts/places.py, which finds disks in them.
set -u
. tests/training.sh
data=("$bin/cast_data")
"${data[@]}" generate pathfinder --out "$tmp/paths" --train 6 --val 3 --test 2 --png "$tmp/tree" >/dev/null 2>&1
"${data[@]}" generate pathx --out "$tmp/pathx" --train 2 --val 1 --test 1 --png "$tmp/treex" >/dev/null 2>&1

# ---- exports take turns ----

mkdir "$tmp/turns"
(
    exec 9<"$tmp/turns"
    flock 9
    touch "$tmp/held"
    for ((i = 0; i < 3000; i++)); do grep -qs 'waiting' "$tmp/out" && break; sleep 0.02; done
) &
until [ -e "$tmp/held" ]; do sleep 0.02; done
expect 0 'turns: another process is at work on it, waiting' "into one directory" \
    "${data[@]}" generate pathfinder --train 8 --val 1 --test 1 --out "$tmp/turned" --png "$tmp/turns"

# ---- PNG files ----

# Those of `generate --png` are in the order test, val, train.
expect 0 'one.png: 32 x 32 pixels, (one snake|two snakes) \(label [01]\)$' "writes a picture" \
    "${data[@]}" show "$tmp/paths" --index 1 --png "$tmp/one.png"
check "as it was generated" cmp "$tmp/one.png" "$tmp/tree/imgs/0/sample_6.png"
check "writes another one over it" "${data[@]}" show "$tmp/paths/val.safetensors" --index 2 --png "$tmp/one.png"
check "of the file that was named" cmp "$tmp/one.png" "$tmp/tree/imgs/0/sample_4.png"
expect 0 'x.png: 128 x 128 pixels' "writes Path-X" "${data[@]}" show "$tmp/pathx" --index 0 --png "$tmp/x.png"
check "as it was generated too" cmp "$tmp/x.png" "$tmp/treex/imgs/0/sample_2.png"

# Data of one's own, of LENGTH tokens.
make_own() { # make_own FILE LENGTH VOCAB
    local i bytes='' header
    for ((i = 0; i < $2; i++)); do put 1 $((i % 256)); done
    put 8 0 && put 8 "$2" && put 4 2
    header="{\"tokens\":{\"dtype\":\"U8\",\"shape\":[$2],\"data_offsets\":[0,$2]},"
    header+="\"offsets\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[$2,$(($2 + 16))]},"
    header+="\"labels\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[$(($2 + 16)),$(($2 + 20))]},"
    header+="\"__metadata__\":{\"task\":\"custom\",\"vocab\":\"$3\",\"classes\":\"3\"}}"
    put_file "$1" "$header"
}
# A pair of a document with itself.
make_pixel_pairs() { # make_pixel_pairs FILE
    local header bytes=''
    put 1 0 && put 1 1 && put 1 2 && put 1 3 && put 8 0 && put 8 4 && put 4 0 && put 4 0 && put 4 0
    header='{"tokens":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"offsets":{"dtype":"I64","shape":[2],"data_offsets":[4,20]},'
    header+='"labels":{"dtype":"I32","shape":[1],"data_offsets":[20,24]},"pairs":{"dtype":"I32","shape":[1,2],"data_offsets":[24,32]},'
    header+='"__metadata__":{"ids":"pixels","vocab":"256","classes":"3"}}'
    put_file "$1" "$header"
}
make_own "$tmp/square" 16 256
expect 0 '4 x 4 pixels, custom \(label 2\)$' "writes squares of one's own" \
    "${data[@]}" show "$tmp/square" --index 0 --png "$tmp/own.png"
check "as PNG" grep -aq 'PNG' "$tmp/own.png"
make_own "$tmp/oblong" 15 256
expect 64 'example 0: 15 tokens are no square of pixels' "but nothing that is no square" \
    "${data[@]}" show "$tmp/oblong" --index 0 --png "$tmp/no.png"
make_own "$tmp/words" 16 257
expect 64 'no grey pictures' "nor ids above 255" "${data[@]}" show "$tmp/words" --index 0 --png "$tmp/no.png"
# And as the script makes them.
custom=("$PWD/scripts/make_custom_dataset.py")
# Weights whose metadata say of their set NEW for OLD; of no NEW, nothing; and of a third word, no model.max_length.
edit_set() { # edit_set WEIGHTS OUT OLD [NEW [unsaid]]
    python3 - "$@" <<'END'
import json, sys
weights, out, old, *new = sys.argv[1:]
data = open(weights, "rb").read()
size = int.from_bytes(data[:8], "little")
header = json.loads(data[8 : 8 + size])
meta = header["__metadata__"]
assert old in meta["set"]
meta["set"] = meta["set"].replace(old, "".join(new[:1]))
if not new:
    del meta["set"]
if new[1:]:
    config = json.loads(meta["config"])
    config["model"]["max_length"] = 0
    meta["config"] = json.dumps(config)
meta.pop("header_crc32", None)
text = json.dumps(header).encode()
open(out, "wb").write(len(text).to_bytes(8, "little") + text + data[8 + size :])
END
}
if python3 -c '' 2>/dev/null; then
    printf 'pos\ta\tb\n\nneg\tbad\n' >"$tmp/a.tsv"
    printf '\xef\xbb\xbflabel,text\r\npos,"good, ""yes"""\r\nneg,b\xe4d\r\n' >"$tmp/a.csv"
    expect 0 '2, 2, 2 examples; labels 0 .neg., 1 .pos.$' "labelled texts" python3 "${custom[@]}" "$tmp/texts" "$tmp"/a.{tsv,csv,tsv}
    expect 0 'val.safetensors: 2 examples, 14 tokens: OK' "are as many bytes" "${data[@]}" verify "$tmp/texts"
    expect 0 '^good, "yes"$' "and shown so" "${data[@]}" show "$tmp/texts/val.safetensors" --index 0
    expect 0 '^pos .label 1.$' "a label is as it was" "${data[@]}" show "$tmp/texts/val.safetensors" --index 0
    expect 0 '^  0 neg  *50.00 %' "in counts too" "${data[@]}" show "$tmp/texts/val.safetensors"
    expect 0 '^b.xe4d$' "whatever they are" "${data[@]}" show "$tmp/texts/val.safetensors" --index 1
    "$bin/cast_train" configs/text.json task=custom data.dir="$tmp/texts" model.depth=1 model.d=8 model.heads=1 model.d_ff=8 \
        train.batch=2 train.steps=2 train.eval_every=1 train.keep=2 train.nan=rollback --out "$tmp/read" >"$tmp/log" 2>&1
    result $? "train" "$tmp/log"
    echo 'a film' >"$tmp/film.txt"
    expect 0 "% +(0 neg|1 pos) .*$tmp/film.txt$" "and predict others" "$bin/cast_eval" "$tmp/read" --input "$tmp/film.txt"
    expect 0 '"class":"(neg|pos)"' "for programs" "$bin/cast_eval" "$tmp/read" --input "$tmp/film.txt" --json
    expect 0 '^  1 pos +[0-9.]' "right and wrong by label" "$bin/cast_eval" "$tmp/read"
    expect 0 '"classes":."neg","pos".,' "for programs, too" "$bin/cast_eval" "$tmp/read" --json
    expect 0 'label 1 pos, predicted [01] (neg|pos)' "in the title of a picture" "$bin/cast_viz" "$tmp/read" --index 0
    cp -r "$tmp/texts" "$tmp/mixed"
    sed 's/"class_names": "\[\\"neg/"class_names": "[\\"nag/' "$tmp/texts/val.safetensors" >"$tmp/mixed/val.safetensors"
    expect 65 "mixed/val.safetensors: calls class 0 'nag', which is 'neg' in another split" "splits of two sets" \
        "${data[@]}" verify "$tmp/mixed"
    expect 0 '(neg|pos) +example 1$' "may be asked about, since no label is looked at" \
        "$bin/cast_eval" "$tmp/read" --input "$tmp/mixed/val.safetensors"
    expect 65 "mixed/val.safetensors: calls class 0 'nag', which is 'neg' in another split" "but do not train" \
        "$bin/cast_train" configs/text.json task=custom data.dir="$tmp/mixed" train.batch=2 --out "$tmp/mixed-run"
    # Its weights are of use where the set is not, nor its names.
    expect 0 'wrote' "weights to give away" "$bin/cast_export" "$tmp/read" --out "$tmp/away"
    check "say what they read" grep -q "^Ids: a text's bytes, each plus 1" "$tmp/away.md"
    check "and what they answer" grep -q '^Classes, from 0: .neg. .pos.\.$' "$tmp/away.md"
    mv "$tmp/texts" "$tmp/elsewhere"
    for weights in "$tmp/read" "$tmp/away.safetensors"; do
        expect 0 "% +(0 neg|1 pos) .*$tmp/film.txt$" "answer without the set" "$bin/cast_eval" "$weights" --input "$tmp/film.txt"
        expect 66 'texts/test.safetensors: .*data.dir=DIR' "but not for it" "$bin/cast_eval" "$weights"
    done
    for weights in "$tmp"/read/*.safetensors; do
        check "which ${weights##*/} says" grep -aq 'class_names.*neg.*pos' "$weights"
    done
    check "five of them" test "$(find "$tmp/read" -name '*.safetensors' | wc -l)" = 5
    expect 0 '% +(0 neg|1 pos) ' "of their mean" "$bin/cast_eval" "$tmp/read" --average --input "$tmp/film.txt"
    edit_set "$tmp/away.safetensors" "$tmp/old.safetensors" ''
    expect 66 'task custom reads its sizes from the data' "which weights of before cannot say" \
        "$bin/cast_eval" "$tmp/old.safetensors" --input "$tmp/film.txt"
    edit_set "$tmp/away.safetensors" "$tmp/odd.safetensors" '"classes":2' '"classes":3'
    expect 65 'odd.safetensors: metadata "class_names": expected a JSON array of 3 names, got 2' "names of other classes" \
        "$bin/cast_export" "$tmp/odd.safetensors" --out "$tmp/odder"
    edit_set "$tmp/away.safetensors" "$tmp/odd.safetensors" '"ids":"bytes",' ''
    edit_set "$tmp/odd.safetensors" "$tmp/odd.safetensors" '"vocab":257' '"vocab":256'
    expect 65 "belongs to another model than its metadata .set. says, of 256 ids and 2 classes$" "sizes of another model" \
        "$bin/cast_eval" "$tmp/odd.safetensors" --input "$tmp/film.txt"
    edit_set "$tmp/away.safetensors" "$tmp/odd.safetensors" '"longest":' '"longest":21474836' unsaid
    expect 78 "'model.max_length' is 0, and the longest document has 21474836[0-9]+ tokens: .*, at most 16777216" "nor any length" \
        "$bin/cast_eval" "$tmp/odd.safetensors" --input "$tmp/film.txt"
    expect 0 '"class":"(neg|pos)"' "swapped" "$bin/cast_eval" "$tmp/read" model.attention.type=full --input "$tmp/film.txt" --json
    sed 's/"class_names": "\[\\"neg/"class_names": "[\\"nag/' "$tmp/elsewhere/test.safetensors" >"$tmp/mixed/test.safetensors"
    expect 0 "mixed/test.safetensors: calls class 0 'nag', which is 'neg' in $tmp/read/best.safetensors" "another order, perhaps" \
        "$bin/cast_eval" "$tmp/read" data.dir="$tmp/mixed"
    expect 65 "mixed/test.safetensors: calls class 0 'nag', which is 'neg' in another split" "of weights of before" \
        "$bin/cast_eval" "$tmp/old.safetensors" data.dir="$tmp/mixed"
    mv "$tmp/elsewhere" "$tmp/texts"
    expect 0 "% +(0 neg|1 pos) .*$tmp/film.txt$" "which the set tells" "$bin/cast_eval" "$tmp/old.safetensors" --input "$tmp/film.txt"
    sed 's/"ids": "bytes"/"ids": "words"/' "$tmp/texts/val.safetensors" >"$tmp/other.safetensors"
    expect 65 'metadata "ids": expected "bytes" of a vocab of 257 or "pixels" of 256, got "words" of 257' "ids of another kind" \
        "${data[@]}" show "$tmp/other.safetensors"
    printf '5\ta\n%s\ta\nn\x01 \xc3\xbc\ta\n' "$(printf 'x%.0s' {1..70})" >"$tmp/odd.tsv"
    python3 "${custom[@]}" "$tmp/odd" "$tmp"/odd.{tsv,tsv,tsv} >"$tmp/log" 2>&1
    expect 0 '^  0 .5. ' "labels of all kinds" "${data[@]}" show "$tmp/odd"
    check "and their columns" test "$(grep -cE '^  (0 .5.|1 n.* .|2 x{24}) * 33\.33 %' "$tmp/out")" = 9
    printf 'other\tx\n' >"$tmp/other.tsv"
    expect 1 "val: label 'other' is not among those of train, neg, pos" "a label that training does not show" \
        python3 "${custom[@]}" "$tmp/x" "$tmp"/{a,other,a}.tsv
    printf 'pos,"Great film\nneg,bad one\npos,fine\n' >"$tmp/open.csv"
    expect 1 'open.csv: line 3: unexpected end of data: are its quotes balanced' "a quote that does not end" \
        python3 "${custom[@]}" "$tmp/x" "$tmp"/{open.csv,a.tsv,a.tsv}
    printf 'label\ttext\npos\ta\nneg\tb\n' >"$tmp/headed.tsv"
    expect 0 '2, 2, 2 examples; labels 0 .neg., 1 .pos.$' "a line of headings" python3 "${custom[@]}" "$tmp/headed" "$tmp"/headed.{tsv,tsv,tsv}
    expect 1 'film.txt: is no folder' "a set in the place of a file" python3 "${custom[@]}" "$tmp/film.txt" "$tmp"/a.{tsv,csv,tsv}
    expect 0 '^ +make_custom_dataset.py DIR ' "what it takes" python3 "${custom[@]}" --help
    echo 'no tab' >"$tmp/other.tsv"
    expect 1 'other.tsv: example 1: expected a label and a text' "a line without a label" python3 "${custom[@]}" "$tmp/x" "$tmp"/{a,a,other}.tsv
    expect 1 'nowhere: is no folder' "a folder that is not there" python3 "${custom[@]}" "$tmp/x" "$tmp/nowhere"
    check "leave nothing" test ! -e "$tmp/x"
else
    echo "ok - # SKIP no python3: no sets of one's own"
fi
if python3 -c 'import PIL' 2>/dev/null; then
    mkdir -p "$tmp/photos"/{10,9,.hidden}
    for i in {1..10}; do cp "$tmp/x.png" "$tmp/photos/9/$i.png"; cp "$tmp/own.png" "$tmp/photos/10/$i.png"; done
    cp "$tmp/own.png" "$tmp/photos/.hidden" && echo none >"$tmp/photos/9/._1.png"
    expect 1 '9/1.png: another size than .*10/1.png: say the SIDE' "pictures of two sizes" python3 "${custom[@]}" "$tmp/photo-set" "$tmp/photos"
    head -c 60 "$tmp/own.png" >"$tmp/photos/9/3.png"
    expect 1 'photos/9/3.png: cannot be read: ' "a damaged picture" python3 "${custom[@]}" "$tmp/photo-set" "$tmp/photos" 4
    cp "$tmp/x.png" "$tmp/photos/9/3.png"
    expect 0 '16, 2, 2 examples; labels 0 .9., 1 .10.$' "made one" python3 "${custom[@]}" "$tmp/photo-set" "$tmp/photos" 4
    expect 0 '4 x 4 pixels, 10 .label 1.' "of that" "${data[@]}" show "$tmp/photo-set" --index 15 --png "$tmp/photo.png"
    mkdir "$tmp/splits" "$tmp/splits/"{train,val,test}
    for split in train val test; do cp -r "$tmp/photos/10" "$tmp/splits/$split/a"; done
    expect 0 '10, 10, 10 examples; labels 0 .a.$' "in splits" python3 "${custom[@]}" "$tmp/photo-set" "$tmp/splits"
    expect 0 '4 x 4 pixels' "as they are" "${data[@]}" show "$tmp/photo-set" --index 3 --png "$tmp/photo.png"
    check "to the pixel" cmp "$tmp/own.png" "$tmp/photo.png"
    expect 0 '^a .label 0.$' "shown" "${data[@]}" show "$tmp/photo-set" --index 3
    check "as such" test -z "$(grep '[0-9] [0-9]' "$tmp/out")"
    "$bin/cast_train" configs/image.json task=custom data.dir="$tmp/photo-set" model.depth=1 model.d=8 model.heads=1 model.d_ff=8 \
        train.batch=2 train.steps=1 train.epochs=1 --out "$tmp/seen" >"$tmp/log" 2>&1
    result $? "train" "$tmp/log"
    expect 0 'own.png$' "and predict others of their size" "$bin/cast_eval" "$tmp/seen" --input "$tmp/own.png"
    expect 65 '128 x 128 pixels, expected 4 x 4' "and none of another" "$bin/cast_eval" "$tmp/seen" --input "$tmp/x.png"
    edit_set "$tmp/seen/best.safetensors" "$tmp/huge.safetensors" '"longest":16' '"longest":2147483647'
    expect 65 'trained on pictures of 46341 x 46341 pixels; at most 4096' "nor of any size that weights may say" \
        "$bin/cast_eval" "$tmp/huge.safetensors" --input "$tmp/own.png"
    # A row each of colours, of white that is more and more transparent, and of 16 bits a pixel.
    mkdir -p "$tmp/kinds/"{train,val,test}/{colour,clear,wide}
    python3 - "$tmp/kinds" <<'END'
import sys
from PIL import Image
colour = Image.frombytes("RGB", (2, 2), bytes((255, 0, 0, 1, 200, 30, 90, 90, 91, 255, 255, 255)))
clear = Image.frombytes("RGBA", (2, 2), bytes((255, 255, 255, 0, 9, 9, 9, 0, 255, 255, 255, 255, 7, 7, 7, 255)))
wide = Image.frombytes("I;16", (2, 2), b"".join(v.to_bytes(2, "little") for v in (0, 1000, 40000, 65535)))
for split in "train", "val", "test":
    for name, picture in ("colour", colour), ("clear", clear), ("wide", wide):
        picture.save(f"{sys.argv[1]}/{split}/{name}/1.png")
END
    expect 0 '3, 3, 3 examples' "pictures in colour, with holes, and of 16 bits" python3 "${custom[@]}" "$tmp/kinds-set" "$tmp/kinds"
    # .2989, .587 and .114 of a colour, times 255.5 / 255, cut; a 257th of 16 bits, rounded.
    check "are grey as those of the import are" test "$(tail -c 12 "$tmp/kinds-set/train.safetensors" | od -An -v -tu1 | xargs)" = \
        '0 0 255 7 76 121 90 255 0 4 156 255'
else
    echo "ok - # SKIP no Pillow: no pictures of one's own"
fi
make_pixel_pairs "$tmp/pixel-pairs"
expect 0 '^0 1 2 3' "pairs of pixels are numbers" "${data[@]}" show "$tmp/pixel-pairs" --index 0
make_data "$tmp/pairs" retrieval 3 3 3 4
expect 64 'no grey pictures' "nor texts" "${data[@]}" show "$tmp/pairs" --index 0 --png "$tmp/no.png"
expect 64 'which example' "--png without --index" "${data[@]}" show "$tmp/paths" --png "$tmp/no.png"
expect 64 'examples 0 to 5' "an example that is none" "${data[@]}" show "$tmp/paths" --index 6 --png "$tmp/no.png"
expect 64 'verify: takes no --png' "--png of a command without" "${data[@]}" verify "$tmp/paths" --png "$tmp/no.png"
check "and nothing was written" test ! -e "$tmp/no.png"
expect 73 'nowhere/no.png: cannot be created' "a place that is not there" \
    "${data[@]}" show "$tmp/paths" --index 0 --png "$tmp/nowhere/no.png"

# ---- on a terminal ----

# Columns of the widest line, and lines, of the picture of example 0, without the line above it.
size_of() { tail -n +2 "$tmp/out" | awk '{ if (length($0) > w) w = length($0) } END { print w "x" NR }'; }
expect 0 '\(label [01]\)$' "Path-X in letters" env -u COLUMNS "${data[@]}" show "$tmp/pathx" --index 0
check "fits 80 columns" test "$(size_of)" = 64x32
expect 0 '\(label [01]\)$' "in more columns" env COLUMNS=256 "${data[@]}" show "$tmp/pathx" --index 0
check "it is there whole" test "$(size_of)" = 256x128
expect 0 '\(label [01]\)$' "in no columns at all" env COLUMNS=2 "${data[@]}" show "$tmp/pathx" --index 0
check "it is a point" test "$(size_of)" = 2x1
expect 0 38\;5 "CLICOLOR_FORCE has colours in a file" env CLICOLOR_FORCE=1 COLORTERM= "${data[@]}" show "$tmp/pathx" --index 0
expect 0 '\(label [01]\)$' "NO_COLOR has none" env CLICOLOR_FORCE=1 NO_COLOR=1 "${data[@]}" show "$tmp/pathx" --index 0
check "whatever else is asked for" bash -c "! grep -q $'\\033' '$tmp/out'"
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    # Of a terminal that says itself how wide it is, which it ends lines with a return for.
    for columns in 256:256x128 70:64x32; do
        env -u COLUMNS TERM=dumb script -qec "stty cols ${columns%:*}; '$bin/cast_data' show '$tmp/pathx' --index 0" /dev/null \
            </dev/null | tr -d '\r' >"$tmp/out"
        check "a terminal of ${columns%:*} columns" test "$(size_of)" = "${columns#*:}"
    done
    for columns in 80:64x64 100:64x64 128:128x128 40:32x32; do
        COLORTERM=truecolor TERM=xterm-256color NO_COLOR='' COLUMNS=${columns%:*} \
            script -qec "'$bin/cast_data' show '$tmp/pathx' --index 0" /dev/null </dev/null >"$tmp/blocks"
        # Each cell is an upper half-block, of two pixels; lines end with the colours' end.
        sed -n '2,$s/\x1b\[[0-9;]*m//gp' "$tmp/blocks" | tr -d '\r' | sed 's/\xe2\x96\x80/#/g' | LC_ALL=C grep '^##*$' |
            awk '{ if (length($0) > w) w = length($0) } END { print w "x" 2 * NR }' >"$tmp/out"
        check "half-blocks fit ${columns%:*} columns" test "$(cat "$tmp/out")" = "${columns#*:}"
    done
else
    echo "ok - half-blocks # SKIP script(1) finds no terminal"
fi

# ---- the places of disks ----

if python3 -c 'import numpy' 2>/dev/null; then
    "${data[@]}" generate pathfinder --out "$tmp/many" --train 6000 --val 600 --test 600 --difficulty easy >/dev/null 2>&1
    expect 0 '^val: 6[0-9].* % of 600 by places alone$' "places of disks tell much of the answer" \
        scripts/places.py "$tmp/many"
    expect 0 'of [45][0-9]+ kept [45].*' "pictures in which they do not" scripts/places.py "$tmp/many" --even "$tmp/even"
    expect 0 'source .*places that tell nothing, of generated by' "are a set" "${data[@]}" show "$tmp/even/test.safetensors"
    expect 0 ': OK' "that is whole" "${data[@]}" verify "$tmp/even/test.safetensors"
    expect 1 'train.safetensors: expected a set of pathfinder$' "other pictures" scripts/places.py "$tmp/pathx"
    expect 1 'many: File exists; --even makes a new directory' "over a set" scripts/places.py "$tmp/many" --even "$tmp/many"
    expect 1 'nowhere/train.safetensors: No such file' "no set" scripts/places.py "$tmp/nowhere"
    mkdir "$tmp/torn" && head -c 100 "$tmp/many/train.safetensors" >"$tmp/torn/train.safetensors"
    expect 1 'torn/train.safetensors: expected a prepared set' "a torn one" scripts/places.py "$tmp/torn"
    expect 1 'paths: 6 pictures train, expected 1000' "too few" scripts/places.py "$tmp/paths"
else
    echo "ok - places of disks # SKIP no numpy"
fi
