meshwright collective --topology h100:2x8 --num-partitions 8 --kind all_reduce --mesh-axis data --bytes 1000 --picture x.svg
