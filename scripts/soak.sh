#!/bin/sh
# soak.sh PROGRAM FOLDER: a long run that is ended again and again, by signals and by killed ranks, and resumed on another
# mesh each time; its losses must be those of one that was left alone. SOAK_STEPS (200) steps, then the memory of ranks over
# SOAK_LONG (5000) short steps, which must not grow; then SOAK_CUTS (20) power cuts. The learning rate is small: at 1e-3 the
# text is learnt by heart, and what meshes round differently grows to some percent of a loss in 150 steps, resumed or not;
# at 1e-4 it stays below 1e-6.
set -eu
program=$(realpath "$1")
folder=$2
steps=${SOAK_STEPS:-200}
long=${SOAK_LONG:-5000}
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

losses() { sed -n 's/^  "loss": \[\(.*\)\],*$/\1/p' "$1" | tr -d ' ' | tr ',' '\n'; }

# shellcheck disable=SC2086
"$program" run $plan --topology local:1 --data "$data" --steps "$steps" --json --out "$folder/straight.json"
losses "$folder/straight.json" >"$folder/straight"

meshes='local:2|--num-partitions 1
local:4|--num-partitions 2
local:2|--num-partitions 2
local:4|--num-partitions 4 --logical-axis-rules standard:2,2
local:1|'
: >"$folder/parts"
round=0
while :; do
    round=$((round + 1))
    mesh=$(echo "$meshes" | sed -n "$((round % 5 + 1))p")
    # shellcheck disable=SC2086
    "$program" run $plan --topology ${mesh%%|*} ${mesh#*|} --data "$data" --steps "$steps" --checkpoint "$folder/run" --checkpoint-every 10 --keep 2 --json --out "$folder/part.json" 2>"$folder/said" &
    run=$!
    sleep $((3 + round % 3))
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
    0 | 6) first=$(sed -n 's/^  "first_step": \([0-9]*\),*$/\1/p' "$folder/part.json")
       losses "$folder/part.json" | awk -v first="$first" '{ print first + NR - 1, $1 }' >>"$folder/parts" ;;
    5 | 143) ;; # 143: the signal came before the first step
    *) cat "$folder/said" >&2; exit 1 ;;
    esac
    [ ! -d "$folder/run/checkpoint_$steps" ] || break
    [ "$round" -lt 200 ] || { echo "soak: does not come to its end" >&2; exit 1; }
done
ls "$folder/run" | grep -q partial && { echo "soak: something half written is left" >&2; exit 1; }
awk 'NR == FNR { straight[NR - 1] = $1; next } { e = $2 / straight[$1] - 1; if (e < 0) e = -e; if (e > worst) worst = e; n++ } END { printf "soak: %d steps of resumed runs, the largest difference of a loss %.1e\n", n, worst; exit !(n > 0 && worst < 1e-5) }' \
    "$folder/straight" "$folder/parts"

# The largest resident set of any rank, early and late.
# shellcheck disable=SC2086
"$program" run --model decoder_only:emb_dim=8,num_heads=2,head_dim=4,mlp_dim=8,num_layers=1,vocab_size=300 --task-feature-lengths 8 --batch-size 4 --topology local:2 --data "$data" --steps "$long" >/dev/null &
run=$!
memory() { ranks_of "$run" | awk '$2 > most { most = $2 } END { print most + 0 }'; }
early=0
while [ "$early" -eq 0 ] && kill -0 "$run" 2>/dev/null; do
    sleep 1 # ranks have begun, and allocated what they need
    early=$(memory)
done
late=$early
samples=0
while kill -0 "$run" 2>/dev/null; do
    now=$(memory)
    [ "$now" -eq 0 ] || { late=$now; samples=$((samples + 1)); }
    sleep 0.2
done
wait "$run"
echo "soak: ranks had $early KiB early and $late KiB late in $long steps, by $samples samples"
[ "$samples" -ge 10 ] || { echo "soak: that is no measurement; SOAK_LONG=$((10 * long)) gives more" >&2; exit 1; }
[ "$late" -le $((early + early / 10 + 2048)) ]

scripts/power_cut.sh "$program" "${SOAK_CUTS:-20}"
