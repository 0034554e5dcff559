meshwright tune --model t5_1_1_small --topology v4-16 --batch-size 64 --verify-with compiler
