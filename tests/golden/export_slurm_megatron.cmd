cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=4096,num_heads=32,num_kv_heads=8,head_dim=128,mlp_dim=14336,num_layers=32,vocab_size=128256,mlp_activations=silu+linear,logits_via_embedding=0,position_encoding=rotary", "topology": "h100:8x8", "software": "megatron", "num_partitions": 4, "sequence_parallel": 1, "pipeline_stages": 2, "virtual_stages": 4, "pipeline_schedule": "interleaved", "context_parallel": 2, "optimizer_partitioning": "data", "remat_policy": "full", "dtype": "fp8", "task_feature_lengths": {"targets": 8192}, "batch_size": 128, "num_microbatches": 16}
T
meshwright export plan.json --format slurm
