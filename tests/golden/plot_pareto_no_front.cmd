echo '{"best": {"model": "m"}, "search": {}}' >tuned.json; meshwright plot pareto tuned.json --out x.svg; rc=$?; rm tuned.json; exit $rc
