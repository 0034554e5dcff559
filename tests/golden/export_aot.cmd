meshwright export t5_11b.json --format aot | head -n 15
