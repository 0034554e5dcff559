meshwright verify --model t5_1_1_small --topology h100:1x8 --batch-size 64 --task-feature-lengths 128,128
