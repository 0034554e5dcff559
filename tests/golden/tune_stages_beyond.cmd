meshwright tune --software megatron --model gpt3_175b --topology a100-80g:1x8 --batch-size 64 --task-feature-lengths 2048 --pipeline-stages 2 --beyond-t5x
