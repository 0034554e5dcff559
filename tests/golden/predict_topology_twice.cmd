meshwright predict --model t5_1_1_small --topology 'v4-8;v4-16;v4-8' --num-partitions 1 --batch-size 64 --task-feature-lengths 512,128
