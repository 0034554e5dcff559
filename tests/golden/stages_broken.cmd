meshwright tune --model gpt3_175b --topology 'a100-80g:16x8@slow_nic=3:0.25' --software megatron --optimizer adamw --task-feature-lengths 2048 --batch-size 192 --pipeline-stages auto
