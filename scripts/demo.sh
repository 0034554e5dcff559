#!/bin/sh
# demo.sh PROGRAM FOLDER: predicts the example table and draws predicted against measured, into FOLDER.
set -eu
program=$1
folder=$2
mkdir -p "$folder"
"$program" sweep examples/tpu_v4_tuning.csv --out "$folder/result.csv"
for picture in svg png; do
    "$program-lab" accuracy comparison "$folder/result.csv" --out "$folder/comparison.$picture"
done
printf '\nThe table with its predictions: %s/result.csv\n' "$folder"
printf 'Predicted beside measured:      %s/comparison.svg and %s/comparison.png\n' "$folder" "$folder"
