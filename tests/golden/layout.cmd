meshwright layout --topology v3-32 --model-parallel-submesh 2,1,1,2 --batch-size 64
