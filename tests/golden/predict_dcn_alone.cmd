meshwright predict --model t5_1_1_small --topology v4-16 --batch-size 32 --task-feature-lengths 128,128 --dcn-mesh data=4
