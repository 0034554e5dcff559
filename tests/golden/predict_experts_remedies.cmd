# experts that every device holds whole: what would make it fit shards them first, and what is said is so
plan='--model mixtral_8x22b --topology h100:8x8 --batch-size 128 --task-feature-lengths 4096 --num-partitions 8'
meshwright predict $plan --optimizer adamw | sed -n '/^It/p; /would make/,$p'
meshwright predict $plan --optimizer adafactor --num-expert-partitions 8 --logical-axis-rules standard_moe:1,1 --num-microbatches 32 | grep '^It'
