meshwright export tile.json --format gin --out run.gin
