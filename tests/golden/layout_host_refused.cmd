meshwright layout --topology a100-80g:4x8 --model-parallel-submesh 2,2,2,1
