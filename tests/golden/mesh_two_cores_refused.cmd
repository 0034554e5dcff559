meshwright mesh --topology v4-512 --model-parallel-submesh 1,1,1,2
