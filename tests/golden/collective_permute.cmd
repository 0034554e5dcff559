meshwright collective --topology v5p-8 --model-parallel-submesh 2,1,1,1 --kind collective_permute --mesh-axis model --bytes 1MiB
