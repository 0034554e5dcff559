meshwright predict --model t5_1_1_large --topology v4-128 --num-partitions 4 --batch-size 256 --task-feature-lengths 512,128 --optimizer adamw --profile overlap.json --json
