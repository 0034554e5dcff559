meshwright params --model t5_1_1_small --adafactor beta=0.9
