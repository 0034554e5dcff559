#!/bin/bash
#SBATCH --nodes=2
NODES=${SLURM_NNODES:-1}
GPUS=8
if [ -z "$SIZE" ]; then SIZE=8B; fi
case $SIZE in
    8B) LAYERS=32; HIDDEN=4096 ;;
    *) LAYERS=80; HIDDEN=8192 ;;
esac
MODEL=(--num-layers $LAYERS --hidden-size $HIDDEN --ffn-hidden-size $((HIDDEN * 7 / 2)) # gated
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope
    --normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights
    --vocab-size 128256 --hidden-dropout 0)
if [ $GPUS -gt 4 ]; then TP=2; else TP=1; fi
torchrun --nproc_per_node $GPUS --nnodes "$NODES" pretrain_gpt.py "${MODEL[@]}" \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 --sequence-parallel \
    --micro-batch-size 1 --global-batch-size $((NODES * 64)) --use-distributed-optimizer \
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
    --bf16 --lr 3e-4 --use-flash-attn --train-iters 100 >log.txt 2>&1
