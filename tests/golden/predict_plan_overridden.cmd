meshwright predict t5_11b.json --model-parallel-submesh 2,4,2,1 --num-microbatches 8 --json
