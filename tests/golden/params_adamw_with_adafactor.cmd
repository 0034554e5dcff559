meshwright params --model t5_1_1_small --optimizer adamw --adafactor beta1=0.9
