meshwright predict t5_11b.json --num-microbatches 5
