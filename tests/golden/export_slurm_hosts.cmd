cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=4096,num_heads=32,num_kv_heads=8,head_dim=128,mlp_dim=14336,num_layers=32,vocab_size=128256,mlp_activations=silu+linear,logits_via_embedding=0,position_encoding=rotary", "topology": "gb200:2x72", "software": "megatron", "num_partitions": 4, "sequence_parallel": 1, "optimizer_partitioning": "data", "remat_policy": "full", "task_feature_lengths": {"targets": 8192}, "batch_size": 144}
T
nodes() { meshwright export plan.json --format slurm >job.sh; echo "exit $?"; grep -oE -e '--n(odes|nodes|proc-per-node)=[0-9]+' -e '--gpus-per-node=[0-9]+' job.sh || true; }
nodes; sed -i 's/2x72/2x7/; s/144/14/; s/"num_partitions": 4/"num_partitions": 1/' plan.json; nodes
