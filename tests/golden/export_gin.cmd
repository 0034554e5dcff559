meshwright export tile.json --format gin --drop
