meshwright tune --model t5_1_1_xxl --topology v5e-64 --batch-size 8,64,512 --task-feature-lengths 512,128 --objective latency_s --min-tokens-per-s 2000 --top 3 --beyond-t5x
