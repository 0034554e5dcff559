predict() { meshwright predict --model decoder_only:emb_dim=1024,num_heads=16,head_dim=64,mlp_dim=4096,num_layers=8,vocab_size=51200 --topology a100-80g:1x8 --task-feature-lengths 512 --batch-size 64 "$@" | grep 'Warning: software_version'; }
predict --software megatron_deepspeed --software-version 'BigScience fork 2022-2'
predict --software megatron_deepspeed --software-version 'BigScience fork 2022-02 bf16'
predict --software megatron --software-version 'core 0.9'
meshwright tune --model t5_1_1_small --topology v4-16 --batch-size 64 --model-parallel-submesh 1,1,1,1 --software-version 2022 | head -1
