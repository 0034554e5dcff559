meshwright predict --model t5_1_1_small --topology v4:4x4x4 --num-partitions 4 --batch-size 128 --task-feature-lengths 512,114 --network packets
