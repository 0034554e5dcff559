"""Which arguments each function takes. Generated from the program's tables of options; `make golden-update` renews it."""
from __future__ import annotations

import os
from typing import Any, Literal, Mapping, Sequence, TypedDict, Union

Text = Union[str, int, float, Sequence[Any], Mapping[str, Any], "os.PathLike[str]"]


class Plan(TypedDict, total=False):
    model: Text
    topology: Text
    model_parallel_submesh: Text
    num_partitions: int
    ici_mesh: Text
    dcn_mesh: Text
    split_physical_axes: int
    contiguous_submeshes: int
    jax: Text
    num_expert_partitions: int
    logical_axis_rules: Text
    params_axes_names_override: Text
    task_feature_lengths: Text
    batch_size: int
    num_microbatches: int
    optimizer: Literal["adafactor", "adamw", "lion", "sgd", "adamw8bit", "paged_adamw8bit", "adam_mini", "sgd_momentum", "muon"]
    adafactor: Text
    remat_policy: Text
    dtype: Literal["bfloat16", "float32", "float16", "fp8", "mxfp8", "nvfp4", "int8"]
    weight_dtype: Literal["float32", "bfloat16", "nf4"]
    moment_dtype: Literal["as_weights", "float32", "bfloat16"]
    gradient_dtype: Literal["software", "float32", "bfloat16"]
    fp8_recipe: Literal["software", "delayed", "current", "blockwise", "tensorwise", "rowwise"]
    attention: Literal["unfused", "flash"]
    scanned: int
    lora_rank: int
    lora_targets: Literal["all-linear", "attention"]
    dropout_rate: float
    optimizer_partitioning: Literal["none", "data", "data+gradients"]
    sequence_parallel: int
    pipeline_stages: int
    virtual_stages: int
    pipeline_schedule: Literal["1f1b", "interleaved", "gpipe"]
    pipeline_partition: Literal["layers", "layers+embeddings", "compute_cost", "torchtitan"]
    pipeline_split_rank: int
    first_stage_layers: int
    pipeline_layers: Text
    pipeline_layout: Text
    mtp_layers: int
    context_parallel: int
    expert_parallel: int
    expert_tensor_parallel: int
    moe_dispatcher: Literal["software", "alltoall", "deepep", "hybridep", "dense", "megablox", "onehot"]
    moe_imbalance: float
    overlap_moe_a2a: int
    cuda_graphs: Text
    capacity_factor: float
    cp_comm_type: Literal["software", "p2p", "all_gather", "a2a"]
    tp_comm_overlap: int
    overlap_grad_reduce: int
    overlap_param_gather: int
    ddp_bucket_size: int
    overlap_comm: int
    reduce_bucket_size: int
    allgather_bucket_size: int
    stage3_prefetch_bucket_size: int
    stage3_param_persistence_threshold: int
    stage3_max_live_parameters: int
    stage3_max_reuse_distance: int
    software: Text
    software_version: Text
    compile: int
    expandable_segments: int
    cpu_offload: Literal["none", "optimizer", "optimizer+parameters"]
    compiler: Text
    memory_model: Literal["compiled", "liveness"]
    memory_kind: Literal["device", "reserved", "allocated", "compiled"]
    memory_stage: Literal["max", "first"]
    learning_rate: float
    lora_alpha: float
    z_loss: float
    loss_normalizing_factor: Text
    loss: Text
    seed: int
    decode_fn: Literal["model_default", "temperature_sample", "beam_search"]
    num_decodes: int
    temperature: Text
    topk: int
    topp: float
    alpha: float
    eos_id: int
    rescale_log_probs: int
    max_decode_len: int
    max_decode_step: int
    min_log_prob: float
    max_decode_steps: int
    max_decode_steps_hard_limit: int
    prompt_with_targets: int
    inputs_bidirectional_attention: int
    parameter_dtype: Literal["as_computed", "bfloat16", "float32", "int8"]
    gpus: Text
    gpu: Text
    dp: Text
    fsdp: Text
    micro_batch_size: Text
    zero_stage: Text


class Predict(Plan, total=False):
    gin_search_path: Text
    notes: bool
    step: Text
    as_partitioned: bool
    collectives_by_op: bool
    peak: bool
    buffers_at: Text
    of_stage: Text
    detail: bool
    what_if: Text
    network: Text
    trace: Text
    train_tokens: Text
    device_hour_price: Text
    profile: Text


class Tune(TypedDict, total=False):
    top: Text
    objective: Text
    step: Text
    max_latency_s: Text
    min_tokens_per_s: Text
    train_tokens: Text
    device_hour_price: Text
    headroom: Text
    risk: Text
    fit: bool
    emit: Text
    detail: bool
    stats: bool
    network: Text
    pareto: bool
    enumerate: Text
    beyond_t5x: bool
    search: Text
    gap: Text
    time_limit: Text
    no_bounds: bool
    no_integer_program: bool
    profile: Text
    model: Text
    topology: Text
    model_parallel_submesh: Text
    num_partitions: Union[int, Literal["auto"], Sequence[int]]
    ici_mesh: Text
    dcn_mesh: Text
    split_physical_axes: Union[int, Literal["auto"], Sequence[int]]
    contiguous_submeshes: Union[int, Literal["auto"], Sequence[int]]
    jax: Text
    num_expert_partitions: Union[int, Literal["auto"], Sequence[int]]
    logical_axis_rules: Text
    params_axes_names_override: Text
    task_feature_lengths: Text
    batch_size: Union[int, Literal["auto"], Sequence[int]]
    num_microbatches: Union[int, Literal["auto"], Sequence[int]]
    optimizer: Union[Literal["adafactor", "adamw", "lion", "sgd", "adamw8bit", "paged_adamw8bit", "adam_mini", "sgd_momentum", "muon"], Literal["auto"], Sequence[Literal["adafactor", "adamw", "lion", "sgd", "adamw8bit", "paged_adamw8bit", "adam_mini", "sgd_momentum", "muon"]]]
    adafactor: Text
    remat_policy: Text
    dtype: Union[Literal["bfloat16", "float32", "float16", "fp8", "mxfp8", "nvfp4", "int8"], Literal["auto"], Sequence[Literal["bfloat16", "float32", "float16", "fp8", "mxfp8", "nvfp4", "int8"]]]
    weight_dtype: Union[Literal["float32", "bfloat16", "nf4"], Literal["auto"], Sequence[Literal["float32", "bfloat16", "nf4"]]]
    moment_dtype: Union[Literal["as_weights", "float32", "bfloat16"], Literal["auto"], Sequence[Literal["as_weights", "float32", "bfloat16"]]]
    gradient_dtype: Union[Literal["software", "float32", "bfloat16"], Literal["auto"], Sequence[Literal["software", "float32", "bfloat16"]]]
    fp8_recipe: Union[Literal["software", "delayed", "current", "blockwise", "tensorwise", "rowwise"], Literal["auto"], Sequence[Literal["software", "delayed", "current", "blockwise", "tensorwise", "rowwise"]]]
    attention: Union[Literal["unfused", "flash"], Literal["auto"], Sequence[Literal["unfused", "flash"]]]
    scanned: Union[int, Literal["auto"], Sequence[int]]
    lora_rank: Union[int, Literal["auto"], Sequence[int]]
    lora_targets: Union[Literal["all-linear", "attention"], Literal["auto"], Sequence[Literal["all-linear", "attention"]]]
    dropout_rate: Union[float, Literal["auto"], Sequence[float]]
    optimizer_partitioning: Union[Literal["none", "data", "data+gradients"], Literal["auto"], Sequence[Literal["none", "data", "data+gradients"]]]
    sequence_parallel: Union[int, Literal["auto"], Sequence[int]]
    pipeline_stages: Union[int, Literal["auto"], Sequence[int]]
    virtual_stages: Union[int, Literal["auto"], Sequence[int]]
    pipeline_schedule: Union[Literal["1f1b", "interleaved", "gpipe"], Literal["auto"], Sequence[Literal["1f1b", "interleaved", "gpipe"]]]
    pipeline_partition: Union[Literal["layers", "layers+embeddings", "compute_cost", "torchtitan"], Literal["auto"], Sequence[Literal["layers", "layers+embeddings", "compute_cost", "torchtitan"]]]
    pipeline_split_rank: Union[int, Literal["auto"], Sequence[int]]
    first_stage_layers: Union[int, Literal["auto"], Sequence[int]]
    pipeline_layers: Text
    pipeline_layout: Text
    mtp_layers: Union[int, Literal["auto"], Sequence[int]]
    context_parallel: Union[int, Literal["auto"], Sequence[int]]
    expert_parallel: Union[int, Literal["auto"], Sequence[int]]
    expert_tensor_parallel: Union[int, Literal["auto"], Sequence[int]]
    moe_dispatcher: Union[Literal["software", "alltoall", "deepep", "hybridep", "dense", "megablox", "onehot"], Literal["auto"], Sequence[Literal["software", "alltoall", "deepep", "hybridep", "dense", "megablox", "onehot"]]]
    moe_imbalance: Union[float, Literal["auto"], Sequence[float]]
    overlap_moe_a2a: Union[int, Literal["auto"], Sequence[int]]
    cuda_graphs: Text
    capacity_factor: Union[float, Literal["auto"], Sequence[float]]
    cp_comm_type: Union[Literal["software", "p2p", "all_gather", "a2a"], Literal["auto"], Sequence[Literal["software", "p2p", "all_gather", "a2a"]]]
    tp_comm_overlap: Union[int, Literal["auto"], Sequence[int]]
    overlap_grad_reduce: Union[int, Literal["auto"], Sequence[int]]
    overlap_param_gather: Union[int, Literal["auto"], Sequence[int]]
    ddp_bucket_size: Union[int, Literal["auto"], Sequence[int]]
    overlap_comm: Union[int, Literal["auto"], Sequence[int]]
    reduce_bucket_size: Union[int, Literal["auto"], Sequence[int]]
    allgather_bucket_size: Union[int, Literal["auto"], Sequence[int]]
    stage3_prefetch_bucket_size: Union[int, Literal["auto"], Sequence[int]]
    stage3_param_persistence_threshold: Union[int, Literal["auto"], Sequence[int]]
    stage3_max_live_parameters: Union[int, Literal["auto"], Sequence[int]]
    stage3_max_reuse_distance: Union[int, Literal["auto"], Sequence[int]]
    software: Text
    software_version: Text
    compile: Union[int, Literal["auto"], Sequence[int]]
    expandable_segments: Union[int, Literal["auto"], Sequence[int]]
    cpu_offload: Union[Literal["none", "optimizer", "optimizer+parameters"], Literal["auto"], Sequence[Literal["none", "optimizer", "optimizer+parameters"]]]
    compiler: Text
    memory_model: Union[Literal["compiled", "liveness"], Literal["auto"], Sequence[Literal["compiled", "liveness"]]]
    memory_kind: Union[Literal["device", "reserved", "allocated", "compiled"], Literal["auto"], Sequence[Literal["device", "reserved", "allocated", "compiled"]]]
    memory_stage: Union[Literal["max", "first"], Literal["auto"], Sequence[Literal["max", "first"]]]
    learning_rate: Union[float, Literal["auto"], Sequence[float]]
    lora_alpha: Union[float, Literal["auto"], Sequence[float]]
    z_loss: Union[float, Literal["auto"], Sequence[float]]
    loss_normalizing_factor: Text
    loss: Text
    seed: Union[int, Literal["auto"], Sequence[int]]
    decode_fn: Union[Literal["model_default", "temperature_sample", "beam_search"], Literal["auto"], Sequence[Literal["model_default", "temperature_sample", "beam_search"]]]
    num_decodes: Union[int, Literal["auto"], Sequence[int]]
    temperature: Text
    topk: Union[int, Literal["auto"], Sequence[int]]
    topp: Union[float, Literal["auto"], Sequence[float]]
    alpha: Union[float, Literal["auto"], Sequence[float]]
    eos_id: Union[int, Literal["auto"], Sequence[int]]
    rescale_log_probs: Union[int, Literal["auto"], Sequence[int]]
    max_decode_len: Union[int, Literal["auto"], Sequence[int]]
    max_decode_step: Union[int, Literal["auto"], Sequence[int]]
    min_log_prob: Union[float, Literal["auto"], Sequence[float]]
    max_decode_steps: Union[int, Literal["auto"], Sequence[int]]
    max_decode_steps_hard_limit: Union[int, Literal["auto"], Sequence[int]]
    prompt_with_targets: Union[int, Literal["auto"], Sequence[int]]
    inputs_bidirectional_attention: Union[int, Literal["auto"], Sequence[int]]
    parameter_dtype: Union[Literal["as_computed", "bfloat16", "float32", "int8"], Literal["auto"], Sequence[Literal["as_computed", "bfloat16", "float32", "int8"]]]
    gpus: Text
    gpu: Text
    dp: Text
    fsdp: Text
    micro_batch_size: Text
    zero_stage: Text
    gin_search_path: Text
    notes: bool


class Verify(Plan, total=False):
    gin_search_path: Text
    notes: bool
    python: Text
    run: Text
    time_limit: Text
    profile: Text


class Export(Plan, total=False):
    command: Text
    drop: bool
    gin_search_path: Text
    notes: bool


class Run(Plan, total=False):
    gin_search_path: Text
    notes: bool
    ranks: Text
    step: Text
    data: Text
    restore: Text
    checkpoint: Text
    allow_changed: Text
    checkpoint_every: Text
    keep: Text
    memory_bytes: Text
    timeout: Text
    hostfile: Text
    trace: Text
    profile: Text


class Collective(TypedDict, total=False):
    topology: Text
    model_parallel_submesh: Text
    num_partitions: int
    num_expert_partitions: int
    ici_mesh_shape: Text
    dcn_mesh_shape: Text
    ici_mesh: Text
    dcn_mesh: Text
    split_physical_axes: int
    contiguous_submeshes: int
    jax: Text
    tile_by_host_if_needed: Text
    mesh_axis: Text
    bytes: Text
    network: Text
    algorithm: Text
    links: bool
    profile: Text


class Mesh(TypedDict, total=False):
    topology: Text
    model_parallel_submesh: Text
    num_partitions: int
    num_expert_partitions: int
    ici_mesh_shape: Text
    dcn_mesh_shape: Text
    ici_mesh: Text
    dcn_mesh: Text
    split_physical_axes: int
    contiguous_submeshes: int
    jax: Text
    tile_by_host_if_needed: Text


class Rules(TypedDict, total=False):
    logical_axis_rules: Text
    axes: Text
    mesh: Text
    shape: Text
    fallback: Text


class Params(TypedDict, total=False):
    from_: Text
    model: Text
    logical_axis_rules: Text
    mesh: Text
    optimizer: Literal["adafactor", "adamw", "lion", "sgd", "adamw8bit", "paged_adamw8bit", "adam_mini", "sgd_momentum", "muon"]
    params_axes_names_override: Text
    adafactor: Text
    gin_search_path: Text
    notes: bool


class Calibrate(TypedDict, total=False):
    profile: Text
    holdout: Text
    draws: Text
    seed: int
    out: Text
