meshwright predict t5_11b.json --json --out answer.html
