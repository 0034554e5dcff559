meshwright tune --model t5_1_1_base --topology v4-16 --batch-size auto --task-feature-lengths 128,32 --step decode --json --out tuned.json && meshwright plot latency tuned.json --out latency.svg
