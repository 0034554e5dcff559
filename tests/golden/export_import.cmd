meshwright export tile.json --format gin --out back.gin && meshwright import back.gin --json
