meshwright data --model t5_1_1_small --batch-size 2 --task-feature-lengths 8
