head -n 3 plans.csv > /dev/null; meshwright calibrate unmeasured.csv --profile x --out nowhere/x.json
