meshwright predict --model t5_1_1_small --topology v4-16 --batch-size 32 --task-feature-lengths 128,128 --ici-mesh data=4,model=2 --num-partitions 2
