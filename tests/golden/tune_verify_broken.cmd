meshwright tune --model t5_1_1_small --topology v4:4x4x4@dead_links=x:0.0.0 --batch-size 128 --verify 4
