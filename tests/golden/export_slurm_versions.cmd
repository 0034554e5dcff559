refuse() { meshwright export plan.json --format slurm; echo "exit $?"; }
cat >plan.json <<'T'
{"optimizer": "adamw", "dropout_rate": 0, "model": "decoder_only:emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=16384,num_layers=24,vocab_size=50257,mlp_activations=gelu,logits_via_embedding=1,biases=1,norm=layer,position_encoding=learned", "topology": "a100-80g:2x8", "software": "nemo", "num_partitions": 4, "remat_policy": "full", "dtype": "float16", "batch_size": 64, "task_feature_lengths": {"targets": 2048}}
T
refuse
sed -i 's/"nemo"/"nemo_o1"/' plan.json; refuse | grep -E 'precision|amp_O2|exit'
cat >plan.json <<'T'
{"optimizer": "adamw", "attention": "flash", "dropout_rate": 0, "model": "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=7168,num_layers=24,vocab_size=50368,mlp_activations=gelu,logits_via_embedding=1,biases=1,norm=layer,position_encoding=learned", "topology": "a100-80g:2x8", "software": "fsdp", "logical_axis_rules": "zero3", "remat_policy": "full", "task_feature_lengths": {"targets": 2048}, "batch_size": 256, "num_microbatches": 2}
T
refuse
