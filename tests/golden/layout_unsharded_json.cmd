meshwright layout --topology h100:2x8 --num-partitions 8 --logical-axis-rules '[["batch",null]]' --json
