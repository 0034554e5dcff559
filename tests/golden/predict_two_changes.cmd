meshwright predict --model t5_1_1_xxl --topology a100-80g:4x8 --num-partitions 1 --batch-size 2304 --task-feature-lengths 512,128 --optimizer adamw | sed -n '/^What would/,$p'
