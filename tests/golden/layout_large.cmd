meshwright layout --topology v4-512 --model-parallel-submesh 4,2,2,1 --batch-size 896
