meshwright sweep plans.csv --out result.csv && cat result.csv
