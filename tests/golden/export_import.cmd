meshwright export tile.json --format gin --out back.gin --drop && meshwright import back.gin --json
