meshwright params --model t5_1_1_small --optimizer adamv
