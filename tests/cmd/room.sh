#!/bin/bash
# Runs on disks that are small, or that others fill: nothing is begun that has no room, and what training did is saved.
set -u
# The disks are mounted where nobody else sees them, and are gone with this process.
if [ -z "${ROOM_ALONE:-}" ]; then
    for alone in "unshare -m" "unshare -rm"; do
        # shellcheck disable=SC2086 # two words
        $alone mount -t tmpfs none /mnt 2>/dev/null && ROOM_ALONE=1 exec $alone bash "$0"
    done
    echo "ok - # SKIP no file system can be mounted here"
    exit
fi
. tests/training.sh
make_data "$tmp/data" listops 40 9 9 60
cat >"$tmp/tiny.json" <<END
{ "task": "listops", "data": { "dir": "$tmp/data" },
  "model": { "depth": 1, "heads": 2, "d": 32, "d_ff": 32, "d_emb": 32, "max_length": 60,
             "attention": { "clusters": 4 } },
  "train": { "steps": 20, "batch": 4, "lr": 5e-3, "log_every": 5 } }
END
disk=$tmp/disk
mkdir "$disk"
train=("$bin/cast_train" "$tmp/tiny.json" --threads 1 --out "$disk/run")
clean_disk() {
    if [ $BASHPID = $$ ]; then umount -l "$disk"; fi
    clean_up
}
trap clean_disk EXIT
small_disk() { # small_disk SIZE
    umount -l "$disk" 2>/dev/null
    mount -t tmpfs -o "size=$1" none "$disk"
}
left() { df --output=avail -B1k "$disk" | tail -1; }
fill() { cat /dev/zero >"$disk/theirs" 2>/dev/null; }
# That of the run and what is left are all of a disk of 2400 kB, but for its directories.
only_files() { test $(($(du -s -B1k "$disk/run" | cut -f1) + $(left))) -ge 2390; }

# ---- before the start ----

expect 71 '^cast_bench: out of memory: .*B are needed, .*B are available' "a batch without the memory" \
    "$bin/cast_bench" "$tmp/tiny.json" train.batch=1048576 model.max_length=1000000 --threads 1
expect 71 '^cast_train: out of memory: .*B are needed, .*B are available' "a model without the memory" \
    "${train[@]}" model.d=65536 model.depth=1024 --out "$tmp/large"
expect 71 '^cast_train: out of memory: more than 18 EB are needed' "a model of more bytes than there are addresses" \
    "$bin/cast_train" "$tmp/tiny.json" model.attention.type=naive model.d_emb=1 model.max_length=16777216 \
    model.depth=1024 model.heads=64 model.d=64 --out "$tmp/endless"
check "before anything is asked of the disk" test -z "$(find "$tmp/large" -size +64k)"
small_disk 400k
expect 73 'run: checkpoints of .* and metrics take .* more there, and .* are free: No space left' "a disk without the room" "${train[@]}"
check "before anything is computed" test ! -e "$disk/run/metrics.jsonl"
check "and nothing is left" test -z "$(find "$disk" -type f -size +4k)"
expect 0 'planned' "a dry run asks for none" "${train[@]}" --dry-run
small_disk 2400k
expect 73 'keeps: checkpoints of .* and metrics take .* more there' "nor the room for those that train.keep keeps" \
    "${train[@]}" train.eval_every=1 train.keep=20 --out "$disk/keeps" --stop-at 15
rm -rf "$disk/keeps"
expect 0 'last.safetensors .update 15.' "with it, it trains" "${train[@]}" --stop-at 15
check "and gives up what it kept" only_files
head -c 500k /dev/zero >"$disk/run/last.safetensors.tmp.1"
head -c "$(($(left) - 16))k" /dev/zero >"$disk/theirs"
expect 0 'best.safetensors' "what is there counts, and what a killed run left is taken away" "${train[@]}"

# ---- while it trains ----

long=("${train[@]}" train.steps=200000 train.eval_every=200 train.log_every=1000)
wait_for() { # at most 30 seconds, for the process or COMMAND...
    local i
    for ((i = 0; i < 1500; i++)); do
        if "$@" || ! kill -0 $pid 2>/dev/null; then return; fi
        sleep 0.02
    done
}
for when in "before a first save" "between two"; do
    small_disk 2400k
    "${long[@]}" >"$tmp/out" 2>&1 &
    pid=$!
    file=metrics.jsonl
    [ "$when" = "between two" ] && file=last.safetensors
    wait_for test -e "$disk/run/$file"
    kill -STOP $pid # so that the room which its save gives back is not filled, too
    fill
    kill -CONT $pid
    wait_for grep -q 'It takes the room that was kept for it' "$tmp/out"
    kill -TERM $pid
    wait $pid
    [ $? -eq 75 ] && grep -q 'which is saved in' "$tmp/out"
    result $? "a disk that fills up $when: stopped, and saved" "$tmp/out"
    check "neither last nor best is lost" bash -c "! grep -E 'NOT saved|is lost|no room is kept' '$tmp/out'"
    said=$(sed -n 's/.*SIGTERM: stopped after update \([0-9]*\) of.*/\1/p' "$tmp/out")
    rm "$disk/theirs"
    expect 0 "resuming at update $said\$" "and goes on from there" "${long[@]}" --stop-at $((said + 1))
done

small_disk 2400k
"${long[@]}" >"$tmp/out" 2>&1 &
pid=$!
wait_for test -e "$disk/run/last.safetensors"
kill -KILL $pid
wait $pid 2>/dev/null
find "$disk" -name '*.tmp.*' -delete
check "a run that is killed keeps no room" only_files
