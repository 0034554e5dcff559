grep -v short plans.csv >table.csv && (head -n 1 table.csv && tail -n +2 table.csv | sort -r) >backwards.csv
meshwright sweep table.csv --out a.csv >a.txt && meshwright sweep backwards.csv --out b.csv >b.txt && sort a.csv >c.csv && sort b.csv | cmp - c.csv && echo the same rows
