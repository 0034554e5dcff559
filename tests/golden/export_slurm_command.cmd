meshwright export decoder.json --format slurm --command 'python3 train.py --config "$PLAN_FILE"' && meshwright export decoder.json --format gin --command x
