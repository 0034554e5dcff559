meshwright collective --topology h100:16x8 --num-partitions 1 --kind all_gather --mesh-axis data --bytes 1MiB --network simulated
