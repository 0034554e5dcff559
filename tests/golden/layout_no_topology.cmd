meshwright layout --num-partitions 2
