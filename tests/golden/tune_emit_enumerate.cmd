meshwright tune --model llama3_8b --topology h100:2x8 --batch-size 64 --optimizer adamw --task-feature-lengths 8192 --software megatron --pipeline-stages 4 --emit slurm --enumerate plans.csv
