meshwright tune --model t5_1_1_large --topology v4-16 --batch-size 8 --pipeline-stages 2
