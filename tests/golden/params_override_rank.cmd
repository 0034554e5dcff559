meshwright params --model t5_1_1_small --params-axes-names-override '[[".*/scale",["embed","mlp"]]]'
