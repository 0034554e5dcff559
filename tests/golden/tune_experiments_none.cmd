meshwright tune --model t5_1_0_11B --topology v4-512 --task-feature-lengths 512,512 --batch-size 896 --experiments 0
