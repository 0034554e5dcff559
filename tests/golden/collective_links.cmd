meshwright collective --topology v5e:2x2 --model-parallel-submesh 2,1,1,1 --kind all_gather --mesh-axis model --bytes 1048576 --links --json
