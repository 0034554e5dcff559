#!/bin/sh
# tour.sh PROGRAM FOLDER: tunes a small model on local:4, runs the best and the second plan, calibrates with both, tunes
# again with the new profile, and reports whether the order held.
set -eu
program=$1
folder=$2
mkdir -p "$folder"
question="--model decoder_only:emb_dim=128,num_heads=4,head_dim=32,mlp_dim=512,num_layers=2,vocab_size=512 --topology local:4 --batch-size 8 --task-feature-lengths 64
          --optimizer sgd --remat-policy none --logical-axis-rules standard:1,1;standard:1,2;zero3;megatron --num-microbatches 1,2"

# The plan of that place (0 the best) in a search's document, on one line of its own.
plan_of() {
    awk -v place="$2" '/"plan": \{/ { depth = 1; n++; if (n == place + 1) on = 1; if (on) print "{"; next }
                      on { print; depth += gsub(/\{/, "{") - gsub(/\}/, "}"); if (depth == 0) exit }' "$1" | sed '$s/},*$/}/'
}

# The value of a key in a document, where it stands first.
value_of() { sed -n "s/^ *\"$2\": \([^,]*\),*\$/\1/p" "$1" | head -n 1; }

# shellcheck disable=SC2086
"$program" tune $question --top 12 --json --out "$folder/tuned.json"
first_shape=$(plan_of "$folder/tuned.json" 0)
printf '%s\n' "$first_shape" >"$folder/best.json"
# The second is the first plan behind the best that takes another time.
place=1
while :; do
    plan_of "$folder/tuned.json" "$place" >"$folder/second.json"
    [ -s "$folder/second.json" ] || { echo "tour: every plan takes the same time" >&2; exit 1; }
    "$program" predict "$folder/best.json" --json --out "$folder/best_predicted.json"
    "$program" predict "$folder/second.json" --json --out "$folder/second_predicted.json"
    [ "$(value_of "$folder/best_predicted.json" step_s)" = "$(value_of "$folder/second_predicted.json" step_s)" ] || break
    place=$((place + 1))
done
for which in best second; do
    "$program" run "$folder/$which.json" --steps 6 --json --out "$folder/${which}_measured.json"
done
"$program" calibrate "$folder/best_measured.json" "$folder/second_measured.json" --profile tour --out "$folder/profile.json"
# shellcheck disable=SC2086
"$program" tune $question --profile "$folder/profile.json" --out "$folder/tuned_again.txt"
echo
echo "step times, seconds:  predicted, measured, predicted with the profile"
for which in best second; do
    "$program" predict "$folder/$which.json" --profile "$folder/profile.json" --json --out "$folder/${which}_again.json"
    printf '  %-8s %s %s %s\n' "$which" "$(value_of "$folder/${which}_predicted.json" step_s)" "$(sed -n '/"time": {/,$p' "$folder/${which}_measured.json" | sed -n 's/^ *"step_s": \([^,]*\),*$/\1/p' | head -n 1)" \
        "$(value_of "$folder/${which}_again.json" step_s)"
done >"$folder/order.txt"
cat "$folder/order.txt"
awk '{ m[NR] = $3; p[NR] = $4 } END { held = m[1] <= m[2]; again = (p[1] <= p[2]) == held
      print (held ? "The order held: what was predicted to be better was better." : "The order did not hold: the second was faster when it ran.")
      print (again ? "With the profile the order is predicted as it was measured." : "With the profile another order is predicted than was measured.")
      printf "Measured steps took %.2g and %.2g times as long as the profile predicts; a machine that does something else meanwhile is slower.\n", m[1] / p[1], m[2] / p[2] }' "$folder/order.txt"
sed -n 3,4p "$folder/tuned_again.txt"
