printf '{"loss": 1, "plan": {"model": "t5_1_1_small"}, "timeline": []}' >run.json; meshwright report run.json; code=$?; rm run.json; exit $code
