meshwright calibrate tile.json
