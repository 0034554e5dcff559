meshwright predict t5_11b.json --out answer.json && head -c 20 answer.json && rm answer.json
