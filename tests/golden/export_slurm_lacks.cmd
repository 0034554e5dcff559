refuse() { meshwright export plan.json --format slurm; echo "exit $?"; }
cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=4096,num_heads=32,num_kv_heads=8,head_dim=128,mlp_dim=14336,num_layers=32,vocab_size=128256,mlp_activations=silu+linear,logits_via_embedding=1,position_encoding=rotary", "topology": "h100:4x8", "software": "nanotron", "num_partitions": 2, "sequence_parallel": 1, "optimizer_partitioning": "data", "pipeline_stages": 1, "remat_policy": "none", "task_feature_lengths": {"targets": 4096}, "batch_size": 256, "num_microbatches": 8, "context_parallel": 2}
T
refuse
cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=4096,num_heads=32,num_kv_heads=8,head_dim=128,mlp_dim=14336,num_layers=32,vocab_size=128256,mlp_activations=relu,logits_via_embedding=0,position_encoding=rotary", "topology": "h100:8x8", "software": "megatron", "num_partitions": 4, "sequence_parallel": 1, "pipeline_stages": 2, "virtual_stages": 4, "pipeline_schedule": "interleaved", "context_parallel": 2, "optimizer_partitioning": "data", "remat_policy": "full", "dtype": "fp8", "task_feature_lengths": {"targets": 8192}, "batch_size": 128, "num_microbatches": 16}
T
refuse
cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=4096,num_heads=32,num_kv_heads=8,head_dim=128,mlp_dim=14336,num_layers=32,vocab_size=128256,mlp_activations=silu+linear,logits_via_embedding=0,position_encoding=rotary", "topology": "h100:8x8", "software": "torchtitan", "logical_axis_rules": "zero3", "num_partitions": 8, "sequence_parallel": 0, "pipeline_stages": 1, "context_parallel": 1, "remat_policy": "selective", "task_feature_lengths": {"targets": 8192}, "batch_size": 64, "num_microbatches": 1}
T
refuse
cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=4096,num_heads=32,num_kv_heads=8,head_dim=128,mlp_dim=14336,num_layers=32,vocab_size=128256,mlp_activations=silu+linear,logits_via_embedding=0,position_encoding=rotary", "topology": "h100:8x8", "software": "torchtitan", "logical_axis_rules": "zero3", "num_partitions": 8, "sequence_parallel": 1, "pipeline_stages": 1, "context_parallel": 1, "remat_policy": "selective", "task_feature_lengths": {"targets": 8192}, "batch_size": 64, "num_microbatches": 4}
T
refuse
cat >plan.json <<'T'
{"optimizer": "adafactor", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=24,vocab_size=50368,mlp_activations=gelu,logits_via_embedding=1,biases=1,norm=layer,position_encoding=learned", "topology": "a100-80g:2x8", "software": "fsdp", "logical_axis_rules": "zero3", "remat_policy": "full", "task_feature_lengths": {"targets": 2048}, "batch_size": 256, "num_microbatches": 2}
T
refuse
