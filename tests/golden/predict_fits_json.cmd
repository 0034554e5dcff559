meshwright predict --model t5_1_1_base --topology v4-16 --num-partitions 2 --batch-size 128 --task-feature-lengths 512,114 --json
