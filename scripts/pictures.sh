#!/bin/sh
# pictures.sh PROGRAM FOLDER: draws the pictures of the README anew.
set -eu
program=$1
folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" sweep examples/tpu_v4_tuning.csv --out "$work/result.csv" >/dev/null
"$program" plot comparison "$work/result.csv" --out "$folder/comparison.png"
"$program" topology v4-512 --submesh 4,2,2,1 --out "$folder/v4-512.png"
"$program" plot memory examples/t5_11b_v4_512.json --out "$folder/memory.png"
