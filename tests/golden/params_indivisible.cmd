meshwright params --model t5_1_1_small --mesh data=4,model=4
