meshwright params --model t5_1_1_base --params-axes-names-override '[["(encoder|decoder/.*",["embed"]]]'
