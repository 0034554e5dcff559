meshwright tune --model t5_1_1_small --topology v4:2x2x1 --batch-size 16 --headroom little
