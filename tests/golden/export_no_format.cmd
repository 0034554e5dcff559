meshwright export tile.json
