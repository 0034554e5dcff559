meshwright layout --topology v3-32 --model-parallel-submesh 4,2,1,2 --json
