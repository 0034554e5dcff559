printf '{"loss": [1], "plan": {"model": "t5_1_1_small"}, "timeline": [{"name": "x", "phase": "sideways"}]}' >run.json; meshwright report run.json; code=$?; rm run.json; exit $code
