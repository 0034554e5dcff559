meshwright pedict plan.json
