meshwright predict --model t5_1_1_small --topology v4:2x2x2 --task-feature-lengths 64,64 --batch-size 8 --network simulated --trace-every-link
