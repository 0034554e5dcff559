cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=4096,num_heads=32,num_kv_heads=8,head_dim=128,mlp_dim=14336,num_layers=32,vocab_size=128256,mlp_activations=silu+linear,logits_via_embedding=1,position_encoding=rotary", "topology": "h100:4x8", "software": "nanotron", "num_partitions": 2, "sequence_parallel": 1, "optimizer_partitioning": "data", "pipeline_stages": 2, "remat_policy": "none", "task_feature_lengths": {"targets": 4096}, "batch_size": 256, "num_microbatches": 8}
T
meshwright export plan.json --format slurm
