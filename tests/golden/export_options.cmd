meshwright export --model t5_1_1_base --topology v4-32 --batch-size 64 --task-feature-lengths 128,128 --format gin | head -n 12
