cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=24,vocab_size=50368,mlp_activations=gelu,logits_via_embedding=1,biases=1,norm=layer,position_encoding=learned", "topology": "a100-80g:2x8", "software": "fsdp", "logical_axis_rules": "zero3", "remat_policy": "full", "task_feature_lengths": {"targets": 2048}, "batch_size": 256, "num_microbatches": 2}
T
meshwright export plan.json --format slurm
