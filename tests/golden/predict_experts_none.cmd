meshwright predict --model t5_1_1_small --topology v4-8 --num-expert-partitions 4 --batch-size 16 --task-feature-lengths 64,64
