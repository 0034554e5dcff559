meshwright data plan.json --step 0; meshwright data --model decoder_only:emb_dim=8,num_heads=2,head_dim=4,mlp_dim=8,num_layers=1,vocab_size=12 --task-feature-lengths 4 --batch-size 2 --step 1 --json
