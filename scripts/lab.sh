#!/bin/sh
# lab.sh PROGRAM FOLDER: runs a range of plans here, calibrates a profile on every second one, and predicts the others
# with it. Prints measured and predicted times, the median error before and after, and the fastest partitioning,
# measured and predicted. Results are meaningful only on a machine with two idle cores. LAB_STEPS (7) steps each.
set -eu
program=$(realpath "$1")
folder=$2
steps=${LAB_STEPS:-7}
export LC_ALL=C
mkdir -p "$folder"

decoder() { printf 'decoder_only:emb_dim=%d,num_heads=%d,head_dim=64,mlp_dim=%d,num_layers=%d,vocab_size=2048,mlp_activations=relu,logits_via_embedding=1' "$1" $(($1 / 64)) $(($1 * 4)) "$2"; }
both() { printf 'encoder_decoder:emb_dim=%d,num_heads=%d,head_dim=64,mlp_dim=%d,num_encoder_layers=%d,num_decoder_layers=%d,vocab_size=2048,mlp_activations=gelu+linear,logits_via_embedding=0' "$1" $(($1 / 64)) $(($1 * 2)) "$2" "$2"; }

# name|fit or judge|model|options; the last ones are one model under several partitionings
cat >"$folder/plans" <<EOF
decoder_256_one|fit|$(decoder 256 4)|--topology local:1 --task-feature-lengths 128 --batch-size 8 --optimizer adamw
decoder_384_one|judge|$(decoder 384 3)|--topology local:1 --task-feature-lengths 128 --batch-size 8 --optimizer adamw
both_256_one|fit|$(both 256 2)|--topology local:1 --task-feature-lengths 128,64 --batch-size 8
both_384_one|judge|$(both 384 2)|--topology local:1 --task-feature-lengths 64,64 --batch-size 16
decoder_256_data|fit|$(decoder 256 4)|--topology local:2 --task-feature-lengths 128 --batch-size 16 --optimizer adamw
decoder_384_data|judge|$(decoder 384 3)|--topology local:2 --task-feature-lengths 256 --batch-size 8 --optimizer adamw
both_256_model|fit|$(both 256 2)|--topology local:2 --num-partitions 2 --task-feature-lengths 128,64 --batch-size 8
both_384_model|judge|$(both 384 2)|--topology local:2 --num-partitions 2 --task-feature-lengths 128,128 --batch-size 8
decoder_512_micro|fit|$(decoder 512 2)|--topology local:2 --task-feature-lengths 128 --batch-size 16 --num-microbatches 4 --optimizer adamw
both_256_full|judge|$(both 256 3)|--topology local:2 --task-feature-lengths 128,64 --batch-size 16 --remat-policy full
same_data|judge|$(decoder 384 2)|--topology local:2 --task-feature-lengths 128 --batch-size 16 --optimizer adamw
same_model|fit|$(decoder 384 2)|--topology local:2 --num-partitions 2 --logical-axis-rules megatron --task-feature-lengths 128 --batch-size 16 --optimizer adamw
same_zero3|judge|$(decoder 384 2)|--topology local:2 --logical-axis-rules zero3 --task-feature-lengths 128 --batch-size 16 --optimizer adamw
same_micro|judge|$(decoder 384 2)|--topology local:2 --num-microbatches 4 --task-feature-lengths 128 --batch-size 16 --optimizer adamw
EOF

# The median of the list step_s of a run's document.
measured_s() { sed -n 's/^  "step_s": \[\(.*\)\],*$/\1/p' "$1" | tr ',' '\n' | sort -g | awk '{ t[NR] = $1 } END { print (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2 }'; }
predicted_s() { sed -n '/^  "time"/,/}/s/^ *"step_s": \([^,]*\),*$/\1/p' "$1"; }

# shellcheck disable=SC2086
while IFS='|' read -r name use model options; do
    "$program" run --model "$model" $options --steps "$steps" --json --out "$folder/$name.json"
    echo "ran $name" >&2
done <"$folder/plans"

fitted=$(awk -F'|' -v folder="$folder" '$2 == "fit" { print folder "/" $1 ".json" }' "$folder/plans")
# shellcheck disable=SC2086
"$program" calibrate $fitted --profile lab --out "$folder/profile.json"

printf '\n%-20s %-6s %12s %12s %8s %12s %8s\n' plan use measured_s before_s error after_s error
# shellcheck disable=SC2086
while IFS='|' read -r name use model options; do
    "$program" predict --model "$model" $options --json >"$folder/before.json"
    "$program" predict --model "$model" $options --profile "$folder/profile.json" --json >"$folder/after.json"
    echo "$name $use $(measured_s "$folder/$name.json") $(predicted_s "$folder/before.json") $(predicted_s "$folder/after.json")"
done <"$folder/plans" | tee "$folder/table" |
    awk '{ printf "%-20s %-6s %12.4f %12.4f %+7.1f%% %12.4f %+7.1f%%\n", $1, $2, $3, $4, 100 * ($4 / $3 - 1), $5, 100 * ($5 / $3 - 1) }'

median() { sort -g | awk '{ t[NR] = $1 } END { printf "%.1f %%", 100 * (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2 }'; }
error_of() { awk -v at="$1" '$2 == "judge" { e = $at / $3 - 1; print e < 0 ? -e : e }' "$folder/table" | median; }
fastest() { awk -v at="$1" '/^same_/ && (best == "" || $at < best) { best = $at; name = $1 } END { print name }' "$folder/table"; }

printf '\nmedian error of the plans that were not fitted: %s before, %s after calibration\n' "$(error_of 4)" "$(error_of 5)"
printf 'fastest partitioning of one model: measured %s, predicted %s\n' "$(fastest 3)" "$(fastest 5)"
