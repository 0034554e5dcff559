meshwright layout --topology v4:2x2x2 --num-partitions 2 --logical-axis-rules '[["batch",["data","model"]]]' --json
