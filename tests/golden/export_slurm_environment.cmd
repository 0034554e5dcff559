cat >plan.json <<'T'
{"optimizer": "adamw", "model": "decoder_only:emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=16384,num_layers=24,vocab_size=50257,mlp_activations=gelu,logits_via_embedding=1,biases=1,norm=layer,position_encoding=learned", "topology": "a100-80g:4x8", "software": "megatron_deepspeed", "software_version": "BigScience fork 2022-02", "num_partitions": 4, "pipeline_stages": 2, "remat_policy": "full", "dtype": "float16", "batch_size": 256, "num_microbatches": 16, "task_feature_lengths": {"targets": 2048}}
T
meshwright export plan.json --format slurm | grep ^export; sed -i 's/ 2022-02/ 2021/' plan.json; meshwright export plan.json --format slurm | grep ^export
