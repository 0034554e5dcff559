meshwright sweep absent.csv --out result.csv
