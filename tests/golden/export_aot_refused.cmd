meshwright export tile.json --format aot
