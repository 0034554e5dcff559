meshwright collective --topology v4-8 --num-partitions 4 --kind all_reduce --mesh-axis length --bytes 1024
