meshwright tune --model t5_1_1_small --topology v4:2x2x1 --task-feature-lengths 64,64 --batch-size 16 --sequence-parallel 1 --model-parallel-submesh 2,1,1,1 --emit gin
