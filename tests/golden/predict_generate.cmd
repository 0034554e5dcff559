meshwright predict --model t5_1_1_xxl --topology v4-16 --num-partitions 4 --batch-size 32 --task-feature-lengths 512,64 --step generate --num-decodes 4
