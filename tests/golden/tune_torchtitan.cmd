meshwright tune --model llama3_8b --topology h100:4x8 --software torchtitan --optimizer adamw --attention flash --task-feature-lengths 8192 --batch-size 64 --top 3
