meshwright collective --topology v4-32 --model-parallel-submesh 1,1,1,1 --kind all_reduce --mesh-axis model --bytes 1048576 --network simulated
