cut -d, -f1-2 plans.csv >short.csv && meshwright sweep short.csv --out result.csv; status=$?; rm short.csv; exit $status
