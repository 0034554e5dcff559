meshwright sweep plans.csv --out result.csv --json
