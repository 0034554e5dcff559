meshwright predict --model t5_1_1_xl --topology v4-16 --batch-size 8 --task-feature-lengths 512,114 --dtype fp8
