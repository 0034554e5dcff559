meshwright tune --model llama3_8b --topology h100:2x8 --batch-size 64 --software torchtitan --optimizer adamw --attention flash --emit slurm --task-feature-lengths 4096 | head -n 1
