meshwright run --model decoder_only:emb_dim=8,num_heads=2,head_dim=4,mlp_dim=8,num_layers=1,vocab_size=12 --task-feature-lengths 4 --batch-size 4 --topology local:2 --steps 1 --keep 2
