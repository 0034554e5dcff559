meshwright tune --model gpt3_175b --topology a100-80g:128x8 --batch-size 8 --software megatron --pipeline-stages 2,4 --fit
