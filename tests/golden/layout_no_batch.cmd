meshwright layout --topology v4-16 --num-partitions 2 --batch-size 0
