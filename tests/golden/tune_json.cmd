meshwright tune --model t5_1_1_small --topology v4:2x2x1 --task-feature-lengths 64,64 --batch-size 16 --num-microbatches 1 --json | grep -c '"collectives"'
