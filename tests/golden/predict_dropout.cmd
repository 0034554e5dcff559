meshwright predict --model t5_1_1_base --topology v4-16 --num-partitions 2 --batch-size 128 --task-feature-lengths 256,256 --dropout-rate 0.1 --program | grep 'dropout mask:'
