#!/bin/sh
# soak.sh PROGRAM FOLDER: interrupts a long run repeatedly, by signals and by killed ranks, and resumes it on another
# mesh each time. Over SOAK_STEPS (200) steps, its losses must equal, bit for bit, those of an uninterrupted run that
# changes its mesh at the same steps. Until step 200 they must be within 1e-5 of a run on one mesh: rounding differences
# between meshes grow with the steps. Then the memory of each rank must not grow over SOAK_LONG (5000) short steps; then
# SOAK_CUTS (20) power cuts. The learning rate is small: at 1e-3 the model memorises the text, and rounding differences
# grow to some percent of the loss in 150 steps; at 1e-4 they stay below 1e-6.
set -eu
program=$(realpath "$1")
folder=$2
steps=${SOAK_STEPS:-200}
long=${SOAK_LONG:-5000}
compared=200 # steps until which roundings stay small
export LC_ALL=C
rm -rf "$folder"
mkdir -p "$folder"
plan='--model decoder_only:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=256,num_layers=2,vocab_size=260,mlp_activations=relu,logits_via_embedding=1
    --task-feature-lengths 64 --batch-size 16 --optimizer adamw --learning-rate 1e-4 --seed 5'
data=$(realpath examples/shanties.txt)

# Number and resident KiB of each rank that descends from the process given.
ranks_of() {
    ps -e -o pid=,ppid=,rss=,comm= | awk -v run="$1" '{ parent[$1] = $2; kib[$1] = $3; name[$1] = $4 }
        END { for (p in name) if (name[p] == "meshwright-rank") { q = p; for (i = 0; i < 6 && q > 1; i++) { if (q == run) print p, kib[p]; q = parent[q] } } }'
}

losses() { sed -n 's/^  "loss": \[\(.*\)\],*$/\1/p' "$1" | tr -d ' ' | tr ',' '\n' | sed '/^$/d'; }

# shellcheck disable=SC2086
"$program" run $plan --topology local:1 --data "$data" --steps "$steps" --json --out "$folder/straight.json"
losses "$folder/straight.json" >"$folder/straight"

meshes='local:2|--num-partitions 1
local:4|--num-partitions 2
local:2|--num-partitions 2
local:4|--num-partitions 4 --logical-axis-rules standard:2,2
local:1|'
: >"$folder/parts"
: >"$folder/rounds"
newest() { find "$1" -name 'checkpoint_*' 2>/dev/null | sed -n 's/.*checkpoint_\([0-9]*\)$/\1/p' | sort -n | tail -n 1; }
round=0
interrupted=0
while :; do
    round=$((round + 1))
    mesh=$(echo "$meshes" | sed -n "$((round % 5 + 1))p")
    # shellcheck disable=SC2086
    "$program" run $plan --topology ${mesh%%|*} ${mesh#*|} --data "$data" --steps "$steps" --checkpoint "$folder/run" --checkpoint-every 10 --keep 2 --json --out "$folder/part.json" 2>"$folder/said" &
    run=$!
    # Interrupted once it has a checkpoint more, on however fast a machine.
    before=$(newest "$folder/run")
    tenths=0
    while kill -0 "$run" 2>/dev/null && [ "$(newest "$folder/run")" = "$before" ] && [ "$tenths" -lt 600 ]; do
        sleep 0.1
        tenths=$((tenths + 1))
    done
    status=0
    if kill -0 "$run" 2>/dev/null && [ $((round % 2)) -eq 0 ]; then
        kill -TERM "$run"
    elif kill -0 "$run" 2>/dev/null; then
        for rank in $(ranks_of "$run" | awk 'NR == 1 { print $1 }'); do
            kill -KILL "$rank" 2>/dev/null || true
        done
    fi
    wait "$run" || status=$?
    echo "round $round on ${mesh%%|*}: exit $status $(tail -n 1 "$folder/said")" >&2
    case $status in
    0 | 6) [ "$status" -eq 0 ] || interrupted=$((interrupted + 1))
       first=$(sed -n 's/^  "first_step": \([0-9]*\),*$/\1/p' "$folder/part.json")
       losses "$folder/part.json" | awk -v first="$first" '{ print first + NR - 1, $1 }' >>"$folder/parts" ;;
    5 | 143) interrupted=$((interrupted + 1)) ;; # 143: the signal came before the ranks were started
    *) cat "$folder/said" >&2; exit 1 ;;
    esac
    reached=$(newest "$folder/run")
    echo "${reached:-0} $mesh" >>"$folder/rounds"
    [ ! -d "$folder/run/checkpoint_$steps" ] || break
    [ "$round" -lt 200 ] || { echo "soak: does not come to its end" >&2; exit 1; }
done
[ "$interrupted" -ge 5 ] || { echo "soak: only $interrupted interruptions; use more SOAK_STEPS" >&2; exit 1; }
ls "$folder/run" | grep -q partial && { echo "soak: something half written is left" >&2; exit 1; }
awk -v until="$compared" 'NR == FNR { straight[NR - 1] = $1; next } { if ($1 >= until) next; e = $2 / straight[$1] - 1; if (e < 0) e = -e; if (e > worst) worst = e; n++ } END { printf "soak: %d steps of resumed runs, the largest difference of a loss %.1e\n", n, worst; exit !(n > 0 && worst < 1e-5) }' \
    "$folder/straight" "$folder/parts"

# The same meshes, for the steps that each left behind, without an interruption.
: >"$folder/again"
reached=0
while read -r end mesh; do
    [ "$end" -gt "$reached" ] || continue
    # shellcheck disable=SC2086
    "$program" run $plan --topology ${mesh%%|*} ${mesh#*|} --data "$data" --steps "$end" --checkpoint "$folder/replay" --keep 1 --json --out "$folder/part.json" 2>"$folder/said" </dev/null
    losses "$folder/part.json" | awk -v first="$reached" '{ print first + NR - 1, $1 }' >>"$folder/again"
    reached=$end
done <"$folder/rounds"
awk 'NR == FNR { again[$1] = $2; next } { n++; if ($2 != again[$1]) { differ++; if (differ < 4) print "soak: step " $1 ": " $2 " and without interruption " again[$1] } }
    END { printf "soak: %d steps of resumed runs, %d differ from those of a run that was not interrupted\n", n, differ; exit !(n > 0 && !differ) }' \
    "$folder/again" "$folder/parts"

# Samples of each rank, "number KiB" per line: growth from the second to the last third, allowed up to a page in ten
# steps. A leak of 400 bytes per step is found.
judge_memory() {
    awk -v long="$long" '{ kib[$1, ++count[$1]] = $2 }
    END { for (rank in count) {
              n = count[rank]; third = int(n / 3); before = after = 0; ranks++
              if (third < 10) { print "soak: " n " samples are no measurement; a larger SOAK_LONG gives more"; exit 1 }
              for (i = n - 2 * third + 1; i <= n - third; i++) before += kib[rank, i] / third
              for (i = n - third + 1; i <= n; i++) after += kib[rank, i] / third
              printf "soak: rank %d of %d samples: %.0f KiB at first, %.0f in the middle third, %.0f in the last\n", ranks, n, kib[rank, 1], before, after
              if (after - before > long / 3 * 0.4) grows = 1
          }
          exit grows || ranks != 2 }' "$1"
}

# Self-test of the memory check: two ranks, one of which leaks so many bytes per step in addition to its initial
# allocations.
samples() { awk -v long="$long" -v leak="$1" 'BEGIN { for (i = 0; i < 90; i++) { print 1, 90000 + 2000 * (i > 3); print 2, 90000 + 2000 * (i > 3) + i / 90 * long * leak / 1024 } }'; }
samples 0 >"$folder/steady"
samples 440 >"$folder/leaks"
judge_memory "$folder/steady" >/dev/null || { echo "soak: memory that does not grow is said to grow" >&2; exit 1; }
! judge_memory "$folder/leaks" >/dev/null || { echo "soak: a leak of 440 bytes a step is not found" >&2; exit 1; }

# The resident set of each rank, from the first sample to the last, as often as /proc can be read: a fast machine is
# through with 5000 steps in a second. If there are too few all the same, four times the steps. SOAK_LEAK, a library that
# leaks, is loaded into the ranks by who wants to see the soak fail.
sample_until_the_end() {
    found=
    while kill -0 "$1" 2>/dev/null; do
        [ "$(echo "$found" | wc -w)" -eq 2 ] || found=$(ranks_of "$1" | cut -d ' ' -f 1)
        for rank in $found; do
            read -r _ pages _ 2>/dev/null <"/proc/$rank/statm" && echo "$rank $((pages * page_kib))" || true
        done
        sleep 0.02
    done
}
page_kib=$(($(getconf PAGESIZE) / 1024))
while :; do
    # shellcheck disable=SC2086
    LD_PRELOAD=${SOAK_LEAK:-} "$program" run --model decoder_only:emb_dim=8,num_heads=2,head_dim=4,mlp_dim=8,num_layers=1,vocab_size=300 --task-feature-lengths 8 --batch-size 4 --topology local:2 --data "$data" --steps "$long" >/dev/null &
    run=$!
    sample_until_the_end "$run" >"$folder/memory"
    wait "$run"
    [ "$(wc -l <"$folder/memory")" -lt 100 ] || break
    long=$((4 * long))
done
judge_memory "$folder/memory"

scripts/power_cut.sh "$program" "${SOAK_CUTS:-20}"
