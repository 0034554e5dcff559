meshwright predict t5_11b.json --batch-size 17 --trace step.json
