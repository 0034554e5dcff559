#!/bin/bash
# Llama 3 70B on 8 nodes of 8 GPUs, as Megatron-LM is started
NODES=${SLURM_NNODES:-8}
MODEL=(--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64
    --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear
    --untie-embeddings-and-output-weights --vocab-size 128256)
PARALLEL=(--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4
    --num-layers-per-virtual-pipeline-stage 5 --sequence-parallel --use-distributed-optimizer)
torchrun --nproc_per_node 8 --nnodes "$NODES" pretrain_gpt.py "${MODEL[@]}" "${PARALLEL[@]}" \
    --micro-batch-size 1 --global-batch-size $((NODES * 16)) --bf16 --use-flash-attn --lr 1.5e-4
