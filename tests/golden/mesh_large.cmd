meshwright mesh --topology v5e-256 --model-parallel-submesh 2,2,1,1
