meshwright export --model t5_1_1_xl --topology v5e-16 --model-parallel-submesh 1,1,1,1 --batch-size 16 --task-feature-lengths 512,114 --dtype int8 --format gin
