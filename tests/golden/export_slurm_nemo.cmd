cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "unfused", "dropout_rate": 0.1, "model": "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=24,vocab_size=50368,mlp_activations=gelu,logits_via_embedding=1,biases=1,norm=layer,position_encoding=learned", "topology": "a100-80g:2x8", "software": "nemo", "num_partitions": 2, "sequence_parallel": 1, "optimizer_partitioning": "data", "remat_policy": "selective", "task_feature_lengths": {"targets": 2048}, "batch_size": 64, "num_microbatches": 4}
T
meshwright export plan.json --format slurm
