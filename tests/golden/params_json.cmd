meshwright params --model decoder_only:emb_dim=256,num_heads=4,num_kv_heads=2,head_dim=64,mlp_dim=512,num_layers=1,vocab_size=1000 --mesh data=2,model=2 --json
