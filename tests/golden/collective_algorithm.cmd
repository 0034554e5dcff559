meshwright collective --topology v4-512 --model-parallel-submesh 4,2,2,1 --kind all_reduce --mesh-axis model --bytes 14MiB --algorithm ring
