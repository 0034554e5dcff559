meshwright export tile.json --format slurm
