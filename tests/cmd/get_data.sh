#!/bin/bash
# scripts/get_data.sh: what it fetches, checks and says, with a curl of our own in place of the network.
set -u
. tests/training.sh
export CAST_DATA=$tmp/raw PATH=$tmp/bin:$PATH
mkdir -p "$tmp/bin" "$tmp/lists"
cat >"$tmp/bin/curl" <<'END'
#!/bin/bash
# Notes what it is asked for; "fetches" $CURL_FILE, or fails as without a network.
echo "$*" >>"$CURL_LOG"
while [ "$1" != -o ]; do shift; done
[ -n "${CURL_FILE:-}" ] && cp "$CURL_FILE" "$2" || exit 6
END
chmod +x "$tmp/bin/curl"
export CURL_LOG=$tmp/log CURL_FILE=
get=(scripts/get_data.sh)

expect 64 'get_data.sh TASK' "no task" "${get[@]}"
expect 64 'get_data.sh TASK' "an unknown task" "${get[@]}" nonsense
expect 66 'Fetch it by hand' "no network" "${get[@]}" text "$tmp/text"
check "says from where" grep -q '^  https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz$' "$tmp/out"
check "would go on where it stopped" grep -qE -- "-C - .*=https .* -o $tmp/raw/text/aclImdb_v1.tar.gz.part https:" "$tmp/log"
check "and to where" grep -q "^  $tmp/raw/text/aclImdb_v1.tar.gz$" "$tmp/out"
echo 'not the archive' >"$tmp/wrong"
CURL_FILE=$tmp/wrong expect 65 'its MD5 is not 7c2ac02c03563afcf9b574c7e56c153a' "another file" "${get[@]}" text "$tmp/text"
lines=$(wc -l <"$tmp/log")
expect 65 'its MD5 is not' "is not fetched twice" "${get[@]}" text "$tmp/text"
check "nor asked for" test "$(wc -l <"$tmp/log")" = "$lines"
check "and nothing is imported" test ! -e "$tmp/text"

# LRA's release: one folder of it, without a checksum.
release=$tmp/make/lra_release/lra_release
mkdir -p "$release/tsv_data" "$release/listops-1000"
for split in train eval test; do printf '1\tA\tB\talpha\tbeta\n' >"$release/tsv_data/new_aan_pairs.$split.tsv"; done
for split in train val test; do printf 'Source\tTarget\r\n7\t7\r\n' >"$release/listops-1000/basic_$split.tsv"; done
for task in pathfinder:32 pathx:128; do
    "$bin/cast_data" generate "${task%:*}" --train 8 --val 1 --test 1 --out "$tmp/made-${task%:*}" \
        --png "$release/pathfinder${task#*:}/curv_contour_length_14" >"$tmp/log_of_made" 2>&1
done
tar -czf "$tmp/release.gz" -C "$tmp/make" lra_release
head -c 300 "$tmp/release.gz" >"$tmp/torn.gz"
CURL_FILE=$tmp/torn.gz expect 65 'cannot be unpacked, or holds no lra_release/lra_release/tsv_data' "a torn release" \
    "${get[@]}" retrieval "$tmp/retrieval"
check "leaves nothing of it unpacked" test ! -e "$tmp/raw/retrieval.part"
find "$tmp/raw" -name 'lra_release*.gz' -delete
CURL_FILE=$tmp/release.gz expect 0 'no checksum is published' "fetches a release" "${get[@]}" retrieval "$tmp/retrieval"
check "imports it" "$bin/cast_data" verify "$tmp/retrieval"
check "unpacks that folder only" test ! -e "$tmp/raw/retrieval/lra_release/lra_release/listops-1000"
lines=$(wc -l <"$tmp/log")
expect 0 'listops: 1 train' "takes another task from the same archive" "${get[@]}" listops "$tmp/listops"
for task in pathfinder pathx; do
    expect 0 "$task: 8 train, 1 val, 1 test" "takes $task's pictures out of it" "${get[@]}" $task "$tmp/$task"
done
check "without fetching" test "$(wc -l <"$tmp/log")" = "$lines"

# What is there already is imported as it is.
mkdir -p "$tmp/raw/text/aclImdb"/{train,test}/{neg,pos}
rm "$tmp/raw/text/aclImdb_v1.tar.gz"
for place in "$tmp/raw/text/aclImdb"/*/*; do echo review >"$place/0_1.txt"; done
expect 0 'text: 2 train' "files that are there" "${get[@]}" text "$tmp/text"
: >"$tmp/raw/text/aclImdb/train/pos/0_1.txt"
expect 65 'train/pos/0_1.txt: the file is empty' "wrong files that are there" "${get[@]}" text "$tmp/text"
check "nothing was fetched for them" test "$(wc -l <"$tmp/log")" = "$lines"

mkdir -p "$tmp/raw/pathx"
cp -r "$release/pathfinder128/curv_contour_length_14/"{imgs,metadata} "$tmp/raw/pathx"
for i in {0..9}; do cp "$tmp/raw/pathx/imgs/0/sample_$i.png" "$tmp/raw/pathx/imgs/0/sample_1$i.png"; done
again=$(sed -E 's/sample_/sample_1/' "$tmp/raw/pathx/metadata/0.npy")
echo "$again" >>"$tmp/raw/pathx/metadata/0.npy"
expect 0 'pathx: 16 train' "what was unpacked by hand, before what else the archive holds" "${get[@]}" pathx "$tmp/pathx"
rm "$tmp/raw/retrieval/tsv_data/new_aan_pairs.test.tsv"
expect 66 'new_aan_pairs.test.tsv' "a folder that lacks a file" "${get[@]}" retrieval "$tmp/retrieval"
check "nothing was fetched for it" test "$(wc -l <"$tmp/log")" = "$lines"

mkdir -p "$tmp/raw/pathfinder/imgs" "$tmp/raw/pathfinder/metadata"
: >"$tmp/raw/pathfinder/metadata/combined.npy"
expect 66 'metadata: no <number>.npy in it' "a folder whose metadata have other names" "${get[@]}" pathfinder "$tmp/none"
check "nothing is fetched for that, either" test "$(wc -l <"$tmp/log")" = "$lines"
rm -r "$tmp/raw/pathfinder"

# Of an archive that is whole, what lies beside it does not matter. Its MD5 is that of a stand-in.
mkdir -p "$tmp/md5" "$tmp/acl/aclImdb"/{train,test}/{neg,pos}
for i in 0 1 2; do for place in "$tmp/acl/aclImdb"/*/*; do echo "review $i" >"$place/${i}_1.txt"; done; done
tar -czf "$tmp/raw/text/aclImdb_v1.tar.gz" -C "$tmp/acl" aclImdb
printf '#!/bin/sh\necho "7c2ac02c03563afcf9b574c7e56c153a  -"\n' >"$tmp/md5/md5sum"
chmod +x "$tmp/md5/md5sum"
printf 'review' >"$tmp/raw/text/aclImdb/train/pos/0_1.txt"
PATH=$tmp/md5:$PATH expect 0 'text: 6 train' "an archive beside a folder of fewer" "${get[@]}" text "$tmp/text"
rm "$tmp/raw/text/aclImdb_v1.tar.gz"

# Names are meant from where the script is called.
script=$PWD/scripts/get_data.sh
mkdir "$tmp/elsewhere"
mv "$tmp/raw" "$tmp/elsewhere/my data"
printf 'review' >"$tmp/elsewhere/my data/text/aclImdb/train/pos/0_1.txt"
cd "$tmp/elsewhere" || exit 1
CAST_DATA='my data' expect 0 'into here: 2 train' "a relative CAST_DATA" "$script" text 'into here'
check "and a relative place" "$bin/cast_data" verify "$tmp/elsewhere/into here"
rm -r 'my data/retrieval'
CAST_DATA='my data' expect 0 '/pairs: 1 train' "of which an archive is unpacked" "$script" retrieval pairs
check "there" test -s "my data/retrieval/tsv_data/new_aan_pairs.test.tsv"
rm -r 'my data/retrieval'
for i in 1 2 3; do CAST_DATA='my data' "$script" retrieval "pairs-$i" >"$tmp/said-$i" 2>&1 & done
wait
for i in 1 2 3; do check "three at once, $i" grep -q ': 1 train' "$tmp/said-$i"; done
CAST_DATA='my data' expect 0 '/pairs: 1 train' "once" "$script" retrieval pairs
check "that is" test "$(grep -c unpacking "$tmp/out")" = 0
CAST_DATA=./none expect 66 "^  $tmp/elsewhere/./none/text/aclImdb_v1.tar.gz$" "where a file is to be put" "$script" text 'x'
cat >tiny.json <<'END'
{ "task": "text", "data": { "dir": "prepared", "holdout": 0.5 },
  "model": { "depth": 1, "heads": 2, "d": 8, "d_ff": 8, "d_emb": 8, "max_length": 30, "attention": { "clusters": 2 } },
  "train": { "steps": 2, "batch": 1, "lr": 1e-3 } }
END
CAST_DATA='my data' expect 0 'prepared: importing text from my data/text, once' "which cast_train finds too" \
    "$bin/cast_train" tiny.json --threads 1 --out run
check "and finds too few" grep -q 'prepared: 2, 2 and 2 examples, where the official files have .*: these are others, or not all' "$tmp/out"
