tune() { meshwright tune "$@" --json | grep "_count\"" | sort -u; }
plain() { tune --model t5_1_1_small --topology v4-16 --batch-size 64 --time-limit 60 "$@"; }
plain --num-microbatches 1,1 --remat-policy none,none --logical-axis-rules 'standard:1,1;standard:1,1' --model-parallel-submesh '1,1,1,1;1,1,1,1'
plain --num-microbatches 1 --remat-policy none --logical-axis-rules standard:1,1 --model-parallel-submesh 1,1,1,1
staged() { tune --model decoder_only:emb_dim=1024,num_heads=16,head_dim=64,mlp_dim=4096,num_layers=8,vocab_size=51200 --topology a100-80g:1x8 --software megatron --batch-size 64 --top 50 "$@"; }
staged --pipeline-stages 2,2 --num-microbatches 16,16 --virtual-stages 2,2 --remat-policy full,full
staged --pipeline-stages 2 --num-microbatches 16 --virtual-stages 2 --remat-policy full
