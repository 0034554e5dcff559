meshwright predict t5_11b.json --out answer.png
