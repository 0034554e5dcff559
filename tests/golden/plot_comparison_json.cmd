meshwright sweep plans.csv --out result.csv >summary.txt && meshwright plot comparison result.csv --out comparison.svg --json
