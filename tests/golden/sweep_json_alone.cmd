meshwright sweep plans.csv --json | head -n 2
