meshwright export decoder.json --format slurm --drop
