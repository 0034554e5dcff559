meshwright calibrate unmeasured.csv --out profile.json
