meshwright sweep plans.csv | cut -d, -f1,13-
