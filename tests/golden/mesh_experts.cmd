meshwright mesh --topology v4:2x2x4 --model-parallel-submesh 1,1,2,1 --num-expert-partitions 3
