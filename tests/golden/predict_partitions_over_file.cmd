meshwright predict t5_11b.json --num-partitions 4 | head -n 1
