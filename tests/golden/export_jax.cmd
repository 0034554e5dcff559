meshwright export tile.json --format jax
