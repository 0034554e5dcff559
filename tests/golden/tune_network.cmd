meshwright tune --model t5_1_1_small --topology v4:4x4x4 --batch-size 128 --num-microbatches 1 --logical-axis-rules standard:1,1 --network simulated | sed -n '/^Best/p; /^Ranked/,/^$/p'
