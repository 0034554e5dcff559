# rules without experts' axes leave them whole; and experts are T5X's, whoever trains
meshwright predict --model mixtral_8x7b --topology h100:8x8 --num-partitions 8 --software megatron --optimizer adamw --attention flash --remat-policy none --batch-size 128 --task-feature-lengths 4096 | head -n 5
meshwright tune --model switch_base --topology v3-32 --batch-size 512 --num-expert-partitions 2 --num-microbatches 1,8,64,512 --top 1 | sed -n "1,2p;/^Of/p;/cannot be launched/,\$p"
