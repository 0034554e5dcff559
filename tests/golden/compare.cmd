meshwright predict t5_11b.json --num-microbatches 8 --json --out eight.json && meshwright compare t5_11b.json eight.json; meshwright compare t5_11b.json eight.json --json | tail -n 5
