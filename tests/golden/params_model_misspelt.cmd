meshwright params --model t5_1_1_bse
