meshwright export infer.gin --format gin --out out.gin && cat out.gin && meshwright import infer.gin --json > a.json && meshwright import out.gin --json > b.json && cmp a.json b.json
