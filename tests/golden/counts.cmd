# counts as people write them; a plan's own sizes are written out, and the message writes them
for tokens in 15T 300B '1.4 trillion' 1e12 300_000_000_000 250k; do meshwright predict t5_11b.json --train-tokens "$tokens" | grep 'target tokens take'; done
for tokens in 15X 1.5 3,2 -5 1e19; do meshwright predict t5_11b.json --train-tokens "$tokens"; done
for batch in 4k 1_024 1e3 8.0 many; do meshwright predict t5_11b.json --batch-size "$batch"; done
meshwright run --model decoder_only:emb_dim=8,num_heads=2,head_dim=4,mlp_dim=8,num_layers=1,vocab_size=12 --task-feature-lengths 4 --batch-size 4 --topology local:2 --steps 1k --memory-bytes 100KiB | grep "It does"
