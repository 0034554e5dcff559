#!/bin/sh
# power_cut.sh PROGRAM CUTS: a run writes checkpoints on ext4, with and without a journal. At CUTS random moments, the
# disk's current content is copied and mounted, and the run resumes from it. Data on the disk before the cut must be
# whole. The disk is an image on a second file system, which is frozen during the copy for consistency. Needs root and
# loop devices; without them, it says so and succeeds.
set -eu
program=$(realpath "$1")
cuts=$2
export LC_ALL=C
folder=$(mktemp -d /dev/shm/meshwright-power-XXXXXX)
run=
clean() {
    [ -z "$run" ] || kill -KILL "$run" 2>/dev/null || true
    fsfreeze -u "$folder/outer" 2>/dev/null || true
    for place in copy disk outer; do umount -l "$folder/$place" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap clean EXIT
mkdir "$folder/outer" "$folder/disk" "$folder/copy"
truncate -s 120M "$folder/outer.img"
if ! { mkfs.ext4 -q -m 0 "$folder/outer.img" && mount -o loop "$folder/outer.img" "$folder/outer"; } 2>/dev/null; then
    echo "power cuts: left out, since images cannot be mounted here"
    exit 0
fi
plan='--model decoder_only:emb_dim=32,num_heads=4,head_dim=8,mlp_dim=64,num_layers=2,vocab_size=64 --topology local:1 --in-process
    --task-feature-lengths 16 --batch-size 4 --optimizer adamw'

# The largest step of the checkpoints below a directory; 0: none. Each is larger than the one before.
newest() { { ls "$1" 2>/dev/null || true; } | sed -n 's/^checkpoint_\([0-9]*\)$/\1/p' | sort -n | tail -n 1 | grep . || echo 0; }

good=0
for options in '-O has_journal' '-O ^has_journal'; do
    truncate -s 32M "$folder/outer/disk.img"
    # shellcheck disable=SC2086
    mkfs.ext4 -q -F -m 0 $options "$folder/outer/disk.img"
    mount -o loop "$folder/outer/disk.img" "$folder/disk"
    # shellcheck disable=SC2086
    "$program" run $plan --steps 1000000 --checkpoint "$folder/disk/run" --checkpoint-every 1 --keep 1 >"$folder/out" 2>&1 &
    run=$!
    tries=0
    until [ "$(newest "$folder/disk/run")" -ge 2 ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 3000 ] && kill -0 "$run" || { cat "$folder/out"; exit 1; }
        sleep 0.1
    done
    cut=0
    while [ "$cut" -lt "$cuts" ]; do
        cut=$((cut + 1))
        sleep "0.$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')"
        before=$(newest "$folder/disk/run")
        # Each has a name of its own: where another program's mount namespace still holds the last one, it would be mounted again.
        copy=$folder/copy-$cut.img
        fsfreeze -f "$folder/outer"
        cp "$folder/outer/disk.img" "$copy"
        fsfreeze -u "$folder/outer"
        case $options in *^*) e2fsck -fy "$copy" >"$folder/fsck" 2>&1 || [ $? -le 2 ] ;; esac
        mount -o loop "$copy" "$folder/copy"
        after=$(newest "$folder/copy/run")
        # The name that was seen last may not have been on the disk yet; the one before was, or it would not be gone.
        status=0
        # shellcheck disable=SC2086
        "$program" run $plan --steps $((after + 1)) --checkpoint "$folder/copy/run" --json >"$folder/json" 2>"$folder/err" || status=$?
        first=$(sed -n 's/^  "first_step": \([0-9]*\),*$/\1/p' "$folder/json")
        if [ "$status" -eq 0 ] && [ "$after" -ge $((before - 1)) ] && [ "$first" = "$after" ]; then good=$((good + 1));
        else echo "power cut $cut, mkfs.ext4 $options: exit $status, step $before before, $after after, went on from ${first:-nothing}"; cat "$folder/err"; fi
        umount "$folder/copy"
        rm -f "$copy"
    done
    kill -KILL "$run"
    wait "$run" 2>/dev/null || true
    run=
    tries=0
    until umount "$folder/disk" 2>/dev/null; do # whoever wrote may still be ending
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || { umount "$folder/disk"; exit 1; }
        sleep 0.1
    done
done
echo "power cuts: $good of $((2 * cuts)) were resumed from, on ext4 with and without a journal"
[ "$good" -eq $((2 * cuts)) ]
