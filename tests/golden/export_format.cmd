meshwright export tile.json --format yaml
