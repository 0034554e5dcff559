meshwright compare t5_11b.json
