meshwright params --model decoder_only:emb_dims=8
