meshwright import t5_11b.json
