meshwright mesh --topology h100:2x4 --num-partitions 2 --json
