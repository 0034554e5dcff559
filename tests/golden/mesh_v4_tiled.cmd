meshwright mesh --topology v4-32 --model-parallel-submesh 2,2,2,1
