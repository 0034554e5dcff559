meshwright tune --model t5_1_1_base --topology v4-16 --batch-size 8 --task-feature-lengths 128,32 --objective latency_s --min-tokens-per-s 1e9
