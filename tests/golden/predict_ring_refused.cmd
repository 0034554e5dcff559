set -- --num-partitions 1 --batch-size 8 --dtype float32 --cp-comm-type p2p
meshwright predict "$@" --topology local:2 --context-parallel 2 --task-feature-lengths 33 --model decoder_only:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=128,num_layers=2,vocab_size=256,position_encoding=rotary
meshwright predict "$@" --topology local:128 --context-parallel 128 --task-feature-lengths 512 --model decoder_only:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=128,num_layers=2,vocab_size=256,position_encoding=rotary
meshwright predict "$@" --topology local:2 --context-parallel 2 --model t5_1_1_small --task-feature-lengths 32,32
meshwright predict "$@" --topology local:2 --context-parallel 2 --task-feature-lengths 32 --model decoder_only:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=128,num_layers=2,vocab_size=256
meshwright run "$@" --topology local:2 --context-parallel 2 --task-feature-lengths 32 --dropout-rate 0.1 --steps 1 --in-process --model decoder_only:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=128,num_layers=2,vocab_size=256,position_encoding=rotary
