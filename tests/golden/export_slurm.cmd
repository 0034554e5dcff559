meshwright export decoder.json --format slurm
