meshwright predict --model t5_1_1_large --topology 'v4:4x4x4@dead_links=x:0.0.0' --num-partitions 4 --batch-size 128 --task-feature-lengths 512,114 --network analytic
