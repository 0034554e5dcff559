meshwright collective --kind all_gather --topology v4:4x4x8 --bytes 64MiB --mesh-axis data --model-parallel-submesh 1,1,1,1
