meshwright tune --model t5_1_1_small --topology v4-16 --batch-size 64 --verify 1 --verify-with compiler --python ./none
