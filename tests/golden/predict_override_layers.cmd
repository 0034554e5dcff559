meshwright predict --model t5_1_1_base --topology v4:2x2x2 --batch-size 32 --task-feature-lengths 64,64 --params-axes-names-override axes.json
