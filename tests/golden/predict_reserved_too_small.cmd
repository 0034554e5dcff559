meshwright predict --model t5_1_1_xl --topology v4-16 --batch-size 192 --task-feature-lengths 512,512 --memory-kind compiled | grep '^It '
