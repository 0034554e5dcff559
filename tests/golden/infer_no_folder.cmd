meshwright infer tile.json --data x --output-dir ''
