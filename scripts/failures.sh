#!/bin/sh
# failures.sh PROGRAM FOLDER [EVERY [MALLOCS]]: a run resumes from a checkpoint and leaves one after each of 3 more steps.
# In one run after the other a call fails, in the command and in its executor: the 1st rename, the 2nd, … fsync, write,
# open (every EVERY-th, 1) and malloc (every MALLOCS-th, 40: there are 38,000). Each must end within a minute, done or
# with a message; the newest checkpoint must be whole; and the same command must then come to the parameters of a run in
# which nothing failed, bit for bit.
set -eu
program=$(realpath "$1")
folder=$2
set -- "$program" "${3:-1}" "${4:-40}"
export LC_ALL=C
rm -rf "$folder"
mkdir -p "$folder"
${CC:-cc} -O1 -shared -fPIC -o "$folder/failing_calls.so" tests/failing_calls.c -ldl
run() {
    timeout 60 "$program" run --model decoder_only:emb_dim=8,num_heads=2,head_dim=4,mlp_dim=8,num_layers=1,vocab_size=260 \
        --topology local:1 --in-process --batch-size 2 --task-feature-lengths 8 --optimizer sgd --data examples/shanties.txt \
        --checkpoint "$folder/run" --checkpoint-every 1 --keep 2 --steps "$1" --json
}
sums() { sed -n '/"arrays"/,$p' "$folder/run/checkpoint_4/manifest.json" | grep -v '^  "checksum"'; }
failed() { echo "failures: $call number $at in $in: $1"; cat "$folder/err"; bad=$((bad + 1)); }

run 1 >/dev/null
cp -r "$folder/run" "$folder/before"
run 4 >"$folder/straight.json"
sums >"$folder/sums"
grep '"loss"' "$folder/straight.json" >"$folder/loss"
asked=0
bad=0
for in in meshwright-rank meshwright; do
    for call in rename fsync write open malloc; do
        every=$2
        [ "$call" != malloc ] || every=$3
        at=$(((every + 1) / 2))
        count=0
        while :; do
            rm -rf "$folder/run" "$folder/mark"
            cp -r "$folder/before" "$folder/run"
            status=0
            FAIL_IN=$in FAIL_CALL=$call FAIL_AT=$at FAIL_MARK=$folder/mark LD_PRELOAD=$folder/failing_calls.so run 4 \
                >"$folder/out" 2>"$folder/err" || status=$?
            [ -e "$folder/mark" ] || break
            count=$((count + 1))
            case $status in
            0) grep -qF "$(cat "$folder/loss")" "$folder/out" || failed "exit 0 with other losses" ;;
            1 | 3 | 5) grep -q '^meshwright: .' "$folder/err" || failed "exit $status without a message" ;;
            *) failed "exit $status" ;;
            esac
            "$program" checkpoint verify "$folder/run" >"$folder/verified" 2>>"$folder/err" || failed "the newest checkpoint is not whole"
            run 4 >"$folder/again.json" 2>"$folder/err" || failed "is not resumed"
            sums | cmp -s - "$folder/sums" || failed "other parameters"
            if find "$folder/run" -name '*partial*' | grep -q .; then failed "something half written stays"; fi
            at=$((at + every))
        done
        echo "failures: $count of $call in $in" >&2
        asked=$((asked + count))
    done
done
echo "failures: $asked calls failed, after $((asked - bad)) of them the run was resumed without a loss"
[ "$bad" -eq 0 ] && [ "$asked" -gt 0 ]
