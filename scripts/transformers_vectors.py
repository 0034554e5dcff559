"""Writes tests/data/transformers_steps.json: loss and gradient norm of tiny models of Hugging Face's transformers, and
what they decode; and transformers_fine_tunes.json: those of some steps that train LoRA adapters of theirs.

Each model has seeded weights, which the test makes again: see value(). The batch is that of the test's batches.jsonl.
  python3 scripts/transformers_vectors.py tests/data [FAMILY…]   (with PyPI's torch and transformers)
"""

import json
import sys

import numpy
import torch
import transformers

VOCAB, WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD = 96, 32, 64, 2, 4, 2, 8
ROWS, LENGTH = 8, 16
USUAL = dict(vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
             num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD, max_position_embeddings=64)
OLDER = {key: value for key, value in USUAL.items() if key not in ("num_key_value_heads", "head_dim")}
MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48)
DEEPSEEK = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=48, n_shared_experts=1,
                kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=6, n_group=1, topk_group=1,
                head_dim=4, first_k_dense_replace=1, q_lora_rank=None, num_hidden_layers=3, num_key_value_heads=HEADS)
GROUPS = dict(n_routed_experts=8, n_group=4, topk_group=2, num_experts_per_tok=3)
PLAIN = dict(rope_type="default")
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=2.0, beta_slow=0.5)

# Family, or family+variant: transformers' class, arguments of its configuration
FAMILIES = {
    "llama": ("Llama", dict(USUAL, rope_parameters=dict(PLAIN, rope_theta=5e5), rms_norm_eps=1e-5)),
    "mistral": ("Mistral", dict(USUAL, sliding_window=5)),
    "qwen2": ("Qwen2", USUAL),
    "qwen3": ("Qwen3", USUAL),
    "gemma": ("Gemma", USUAL),
    "gemma2": ("Gemma2", dict(USUAL, sliding_window=5, query_pre_attn_scalar=16, attn_logit_softcapping=2.0,
                              final_logit_softcapping=3.0)),
    "gemma3": ("Gemma3", dict(USUAL, sliding_window=5, query_pre_attn_scalar=16, layer_types=["sliding_attention",
                                                                                             "full_attention"])),
    "olmo2": ("Olmo2", dict(USUAL, num_key_value_heads=HEADS, pad_token_id=0)),
    "granite": ("Granite", dict(USUAL, embedding_multiplier=3.0, residual_multiplier=0.5, logits_scaling=2.0,
                                attention_multiplier=0.2)),
    "glm4": ("Glm4", dict(USUAL, pad_token_id=0)),
    "phi3": ("Phi3", dict(USUAL, pad_token_id=0)),
    "starcoder2": ("Starcoder2", dict({k: v for k, v in USUAL.items() if k != "head_dim"}, sliding_window=None)),
    "falcon": ("Falcon", dict(OLDER, activation="gelu_pytorch_tanh", bias=False)),
    "gpt2": ("GPT2", dict(vocab_size=VOCAB, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=LENGTH,
                          resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "gpt_neox": ("GPTNeoX", dict(OLDER, hidden_act="gelu_new",
                                 rope_parameters=dict(PLAIN, rope_theta=1e4, partial_rotary_factor=0.5))),
    "opt": ("OPT", dict(OLDER, ffn_dim=HIDDEN, word_embed_proj_dim=WIDTH, pad_token_id=0, max_position_embeddings=LENGTH)),
    "bloom": ("Bloom", dict(vocab_size=VOCAB, hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS)),
    "mixtral": ("Mixtral", dict(USUAL, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2_moe": ("Qwen2Moe", dict(USUAL, shared_expert_intermediate_size=40, **MOE)),
    "qwen3_moe": ("Qwen3Moe", dict(USUAL, norm_topk_prob=True, **MOE)),
    "deepseek_v2": ("DeepseekV2", {**USUAL, **DEEPSEEK, "topk_method": "greedy", "routed_scaling_factor": 1.5}),
    "deepseek_v3": ("DeepseekV3", {**USUAL, **DEEPSEEK, "q_lora_rank": 16}),
    "gpt_oss": ("GptOss", dict(USUAL, num_local_experts=4, num_experts_per_tok=2, sliding_window=5,
                               layer_types=["sliding_attention", "full_attention"],
                               rope_parameters=dict(PLAIN, rope_theta=1.5e5))),
    "smollm3": ("SmolLM3", dict(USUAL, num_hidden_layers=4, no_rope_layer_interval=2, pad_token_id=0)),
    "olmo3+yarn": ("Olmo3", dict(USUAL, num_key_value_heads=HEADS, pad_token_id=0, sliding_window=5,
                                 layer_types=["sliding_attention", "full_attention"],
                                 rope_parameters=dict(sliding_attention=dict(PLAIN, rope_theta=5e5),
                                                      full_attention=dict(YARN, rope_theta=5e5)))),
    "llama+scaled": ("Llama", dict(USUAL, rope_parameters=dict(
        rope_type="llama3", rope_theta=1e2, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32))),
    "llama+linear": ("Llama", dict(USUAL, rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=4.0))),
    "gpt_neox+erf": ("GPTNeoX", dict(OLDER, hidden_act="gelu")),
    "gpt_oss+yarn": ("GptOss", dict(USUAL, num_local_experts=4, num_experts_per_tok=2, sliding_window=5,
                                    layer_types=["sliding_attention", "full_attention"],
                                    rope_parameters=dict(YARN, rope_theta=1e2, truncate=False))),
    "deepseek_v2+groups": ("DeepseekV2", {**USUAL, **DEEPSEEK, **GROUPS, "topk_method": "group_limited_greedy"}),
    "deepseek_v3+groups": ("DeepseekV3", {**USUAL, **DEEPSEEK, **GROUPS, "q_lora_rank": 16, "rope_parameters": dict(
        YARN, rope_theta=1e2, mscale=0.7, mscale_all_dim=0.8)}),
}


# Fine-tunes: family, and the linear layers that have adapters, under the names of run and of transformers
ALPHA, RANK, RATE, STEPS = 8, 3, 0.25, 3
ATTENTION = {"self_attention.query": "q_proj", "self_attention.key": "k_proj", "self_attention.value": "v_proj",
             "self_attention.out": "o_proj"}
TUNED = {"llama": ("all-linear", {**ATTENTION, "mlp.wi_0": "gate_proj", "mlp.wi_1": "up_proj", "mlp.wo": "down_proj"}),
         "qwen2": ("attention", ATTENTION), "mixtral": ("attention", ATTENTION),
         "starcoder2": ("all-linear", {**ATTENTION, "mlp.wi": "c_fc", "mlp.wo": "c_proj"})}


def number(seed, count):
    """Numbers of -1 to 1: 24 bits of a mixed hash of the seed and the element's place."""
    h = 2166136261
    for byte in seed.encode():
        h = ((h ^ byte) * 16777619) & 0xFFFFFFFF
    x = (numpy.arange(count, dtype=numpy.uint64) * 2654435761 + h) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = ((x ^ (x >> numpy.uint64(shift))) * factor) & 0xFFFFFFFF
    return (x >> numpy.uint64(8)).astype(numpy.float64) / 2**23 - 1


def value(path, shape):
    """A parameter under the path that a run gives it; layers are axis 1."""
    r = number(path, int(numpy.prod(shape)))
    kind = path.rsplit(".", 1)[-1]
    made = {"scale": 1 + 0.2 * r, "bias": 0.2 * r, "sinks": r, "embedding": 0.6 * r}.get(kind, 0.3 * r)
    return made.astype(numpy.float32).reshape(shape)


def batch():
    tokens = (numpy.floor((number("tokens", 2 * ROWS * LENGTH) + 1) / 2 * (VOCAB - 1)) + 1).astype(int)
    return tokens.reshape(2, ROWS, LENGTH)


class Weights:
    """Our parameters of one model, layer by layer, in the layout of PyTorch's linear layers."""

    def __init__(self, config, first_dense):
        self.config, self.first_dense = config, first_dense
        self.used = set()

    def whole(self, path, *shape):
        self.used.add(path)
        return value("target.decoder." + path, shape)

    def layer(self, at, path, *shape):
        dense = at < self.first_dense
        count = self.first_dense if dense else self.config.num_hidden_layers - self.first_dense
        path = ("dense_layers." if dense else "decoder.") + path
        return self.whole(path, shape[0], count, *shape[1:])[:, at - (0 if dense else self.first_dense)]

    def linear(self, at, path, *shape, inputs=1):
        kernel = self.layer(at, path + ".kernel", *shape)
        return kernel.reshape(int(numpy.prod(shape[:inputs])), -1).T


def turned(rows, turn):
    """Heads' rows in the order of the family that turns neighbours, or only a part, by positions."""
    if not turn:
        return rows
    out, first = rows.copy(), turn[0]
    span = rows[:, first : first + turn[1]]
    out[:, first : first + turn[1] : 2], out[:, first + 1 : first + turn[1] : 2] = numpy.split(span, 2, axis=1)
    return out


def heads(w, at, name, count, turn, bias):
    e = w.config.hidden_size
    d = getattr(w.config, "head_dim", None) or e // w.config.num_attention_heads
    kernel = w.linear(at, f"self_attention.{name}", e, count, d).reshape(count, d, e)
    made = {"weight": turned(kernel, turn).reshape(count * d, e)}
    if bias:
        offset = w.layer(at, f"self_attention.{name}.bias", count, d)
        made["bias"] = turned(offset[..., None], turn).reshape(count * d)
    return made


def norm(w, at, path, *shape, less=0.0, bias=False):
    made = {"weight": w.layer(at, path + ".scale", *shape) - numpy.float32(less)}
    if bias:
        made["bias"] = w.layer(at, path + ".bias", *shape)
    return made


def dense(w, at, path, fan_in, fan_out, bias=False):
    made = {"weight": w.linear(at, path, fan_in, fan_out)}
    if bias:
        made["bias"] = w.layer(at, path + ".bias", fan_out)
    return made


def assigned(state, prefix, made):
    for key, array in made.items():
        state[f"{prefix}.{key}"] = array


def mlp(w, at, prefix, state, width, path="mlp", joined=False):
    e = w.config.hidden_size
    gate, up = (dense(w, at, f"{path}.wi_{i}", e, width)["weight"] for i in (0, 1))
    if joined:
        state[f"{prefix}.gate_up_proj.weight"] = numpy.concatenate([gate, up])
    else:
        state[f"{prefix}.gate_proj.weight"], state[f"{prefix}.up_proj.weight"] = gate, up
    assigned(state, f"{prefix}.down_proj", dense(w, at, f"{path}.wo", width, e))


def routed_experts(c):
    names = ("n_routed_experts", "num_local_experts", "num_experts")
    return next((getattr(c, name) for name in names if getattr(c, name, None)), 0)


def experts(w, at, prefix, state, width, oss):
    e, x = w.config.hidden_size, routed_experts(w.config)
    gate, up = (w.layer(at, f"mlp.expert.wi_{i}.kernel", x, e, width) for i in (0, 1))
    down = w.layer(at, "mlp.expert.wo.kernel", x, width, e)
    router = f"{prefix}.{'router' if oss else 'gate'}"
    state[f"{router}.weight"] = w.layer(at, "mlp.router.router_weights.w.kernel", e, x).T
    if not oss:
        state[f"{prefix}.experts.gate_up_proj"] = numpy.concatenate([gate, up], axis=2).transpose(0, 2, 1)
        state[f"{prefix}.experts.down_proj"] = down.transpose(0, 2, 1)
        return
    state[f"{router}.bias"] = w.layer(at, "mlp.router.router_weights.w.bias", x)
    biases = [w.layer(at, f"mlp.expert.wi_{i}.bias", x, width) for i in (0, 1)]
    state[f"{prefix}.experts.gate_up_proj"] = numpy.stack([gate, up], axis=3).reshape(x, e, 2 * width)
    state[f"{prefix}.experts.gate_up_proj_bias"] = numpy.stack(biases, axis=2).reshape(x, 2 * width)
    state[f"{prefix}.experts.down_proj"] = down
    state[f"{prefix}.experts.down_proj_bias"] = w.layer(at, "mlp.expert.wo.bias", x, e)


def latent(w, at, prefix, state):
    c = w.config
    e, h, nope, rope, rank = c.hidden_size, c.num_attention_heads, c.qk_nope_head_dim, c.qk_rope_head_dim, c.kv_lora_rank
    path, turn = "self_attention", (nope, rope)
    if c.q_lora_rank:
        state[f"{prefix}.q_a_proj.weight"] = w.linear(at, f"{path}.query_a", e, c.q_lora_rank)
        assigned(state, f"{prefix}.q_a_layernorm", norm(w, at, f"{path}.query_a_norm", c.q_lora_rank))
        query = w.linear(at, f"{path}.query_b", c.q_lora_rank, h, nope + rope)
    else:
        query = w.linear(at, f"{path}.query", e, h, nope + rope)
    query = turned(query.reshape(h, nope + rope, -1), turn).reshape(h * (nope + rope), -1)
    state[f"{prefix}.{'q_b_proj' if c.q_lora_rank else 'q_proj'}.weight"] = query
    shared = turned(w.linear(at, f"{path}.key_rope", e, rope)[None], (0, rope))[0]
    state[f"{prefix}.kv_a_proj_with_mqa.weight"] = numpy.concatenate(
        [w.linear(at, f"{path}.key_value_a", e, rank), shared])
    assigned(state, f"{prefix}.kv_a_layernorm", norm(w, at, f"{path}.key_value_a_norm", rank))
    key = w.linear(at, f"{path}.key_b", rank, h, nope).reshape(h, nope, rank)
    val = w.linear(at, f"{path}.value_b", rank, h, c.v_head_dim).reshape(h, c.v_head_dim, rank)
    state[f"{prefix}.kv_b_proj.weight"] = numpy.concatenate([key, val], axis=1).reshape(-1, rank)
    state[f"{prefix}.o_proj.weight"] = w.linear(at, f"{path}.out", h, c.v_head_dim, e, inputs=2)


def llama_like(family, w):
    """Families with rotary positions and gated MLPs."""
    c, state = w.config, {}
    e, h, kv = c.hidden_size, c.num_attention_heads, c.num_key_value_heads
    d = getattr(c, "head_dim", None) or e // h
    less = 1.0 if family.startswith("gemma") else 0.0
    bias = family in ("qwen2", "qwen2_moe", "gpt_oss", "glm4")
    turn = (0, d // 2) if family == "glm4" else None
    names = {"input_layernorm": "pre_self_attention_layer_norm", "post_attention_layernorm": "pre_mlp_layer_norm"}
    if family in ("gemma2", "gemma3"):
        names = {"input_layernorm": "pre_self_attention_layer_norm",
                 "post_attention_layernorm": "post_self_attention_layer_norm",
                 "pre_feedforward_layernorm": "pre_mlp_layer_norm",
                 "post_feedforward_layernorm": "post_mlp_layer_norm"}
    if family in ("olmo2", "olmo3"):
        names = {"post_attention_layernorm": "post_self_attention_layer_norm",
                 "post_feedforward_layernorm": "post_mlp_layer_norm"}
    if family == "glm4":
        names.update(post_self_attn_layernorm="post_self_attention_layer_norm", post_mlp_layernorm="post_mlp_layer_norm")
    for at in range(c.num_hidden_layers):
        layer = f"model.layers.{at}"
        for theirs, ours in names.items():
            assigned(state, f"{layer}.{theirs}", norm(w, at, ours, e, less=less))
        if family.startswith("deepseek"):
            latent(w, at, f"{layer}.self_attn", state)
        else:
            parts = [heads(w, at, name, count, turn if name != "value" else None, bias)
                     for name, count in (("query", h), ("key", kv), ("value", kv))]
            if family == "phi3":
                state[f"{layer}.self_attn.qkv_proj.weight"] = numpy.concatenate([p["weight"] for p in parts])
            else:
                for name, part in zip("qkv", parts):
                    assigned(state, f"{layer}.self_attn.{name}_proj", part)
            state[f"{layer}.self_attn.o_proj.weight"] = w.linear(at, "self_attention.out", h, d, e, inputs=2)
        if family == "gpt_oss":
            state[f"{layer}.self_attn.o_proj.bias"] = w.layer(at, "self_attention.out.bias", e)
            state[f"{layer}.self_attn.sinks"] = w.layer(at, "self_attention.sinks", h)
        if family in ("qwen3", "qwen3_moe", "gemma3", "olmo2", "olmo3"):
            for name, ours, count in (("q", "query", h), ("k", "key", kv)):
                shape = (count, d) if family in ("olmo2", "olmo3") else (d,)
                scale = w.layer(at, f"self_attention.{ours}_norm.scale", *shape)
                state[f"{layer}.self_attn.{name}_norm.weight"] = scale.reshape(-1) - numpy.float32(less)
        if not routed_experts(c) or at < w.first_dense:
            mlp(w, at, f"{layer}.mlp", state, c.intermediate_size, joined=family in ("phi3", "glm4"))
            continue
        width = getattr(c, "moe_intermediate_size", None) or c.intermediate_size
        experts(w, at, f"{layer}.mlp", state, width, family == "gpt_oss")
        if family.startswith("deepseek"):
            mlp(w, at, f"{layer}.mlp.shared_experts", state, width * c.n_shared_experts, "mlp.shared_expert")
        if family == "qwen2_moe":
            mlp(w, at, f"{layer}.mlp.shared_expert", state, c.shared_expert_intermediate_size, "mlp.shared_expert")
            state[f"{layer}.mlp.shared_expert_gate.weight"] = w.layer(at, "mlp.shared_expert_gate.kernel", e)[None]
    state["model.embed_tokens.weight"] = w.whole("token_embedder.embedding", c.vocab_size, e)
    state["model.norm.weight"] = w.whole("decoder_norm.scale", e) - numpy.float32(less)
    if not c.tie_word_embeddings:
        state["lm_head.weight"] = w.whole("logits_dense.kernel", e, c.vocab_size).T
    return state


def ungated(family, w):
    """Families with layer norms, and an MLP of one activation."""
    c, state = w.config, {}
    e, h = c.hidden_size, c.num_attention_heads
    d = e // h
    kv = {"falcon": 1, "starcoder2": getattr(c, "num_key_value_heads", h)}.get(family, h)
    stem, attention, out, up, down, first, second, last = {
        "starcoder2": ("model.layers", "self_attn", "o_proj", "mlp.c_fc", "mlp.c_proj", "input_layernorm",
                       "post_attention_layernorm", "model.norm"),
        "falcon": ("transformer.h", "self_attention", "dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h",
                   "input_layernorm", None, "transformer.ln_f"),
        "bloom": ("transformer.h", "self_attention", "dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h",
                  "input_layernorm", "post_attention_layernorm", "transformer.ln_f"),
        "gpt_neox": ("gpt_neox.layers", "attention", "dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h",
                     "input_layernorm", "post_attention_layernorm", "gpt_neox.final_layer_norm"),
        "gpt2": ("transformer.h", "attn", "c_proj", "mlp.c_fc", "mlp.c_proj", "ln_1", "ln_2", "transformer.ln_f"),
        "opt": ("model.decoder.layers", "self_attn", "out_proj", "fc1", "fc2", "self_attn_layer_norm",
                "final_layer_norm", "model.decoder.final_layer_norm"),
    }[family]
    width = HIDDEN if family in ("starcoder2", "gpt_neox", "opt") else 4 * e
    bias = family != "falcon"
    for at in range(c.num_hidden_layers):
        layer = f"{stem}.{at}"
        q, k, v = (heads(w, at, name, count, None, bias) for name, count in
                   (("query", h), ("key", kv), ("value", kv)))
        if family in ("starcoder2", "opt"):
            for name, part in zip("qkv", (q, k, v)):
                assigned(state, f"{layer}.{attention}.{name}_proj", part)
        else:
            joined = {}
            for key in q:
                parts = [p[key].reshape(-1, d, e if key == "weight" else 1) for p in (q, k, v)]
                whole = (numpy.concatenate(parts) if family in ("falcon", "gpt2") else
                         numpy.stack(parts, axis=1))  # each head's three together
                joined[key] = whole.reshape((-1, e) if key == "weight" else -1)
            assigned(state, f"{layer}.{attention}.{'c_attn' if family == 'gpt2' else 'query_key_value'}", joined)
        made = {"weight": w.linear(at, "self_attention.out", h, d, e, inputs=2)}
        if bias:
            made["bias"] = w.layer(at, "self_attention.out.bias", e)
        assigned(state, f"{layer}.{attention}.{out}", made)
        assigned(state, f"{layer}.{up}", dense(w, at, "mlp.wi", e, width, bias))
        assigned(state, f"{layer}.{down}", dense(w, at, "mlp.wo", width, e, bias))
        assigned(state, f"{layer}.{first}", norm(w, at, "pre_self_attention_layer_norm", e, bias=True))
        if second:
            assigned(state, f"{layer}.{second}", norm(w, at, "pre_mlp_layer_norm", e, bias=True))
        if family == "gpt2":
            for key in [key for key in state if key.startswith(layer) and state[key].ndim == 2]:
                state[key] = state[key].T
    assigned(state, last, {"weight": w.whole("decoder_norm.scale", e), "bias": w.whole("decoder_norm.bias", e)})
    table = {"gpt_neox": "gpt_neox.embed_in", "opt": "model.decoder.embed_tokens", "gpt2": "transformer.wte",
             "starcoder2": "model.embed_tokens"}.get(family, "transformer.word_embeddings")
    state[f"{table}.weight"] = w.whole("token_embedder.embedding", c.vocab_size, e)
    if family == "gpt_neox":
        state["lm_head.weight"] = w.whole("logits_dense.kernel", e, c.vocab_size).T
    if family == "bloom":
        assigned(state, "transformer.word_embeddings_layernorm",
                 {"weight": w.whole("embedding_layer_norm.scale", e), "bias": w.whole("embedding_layer_norm.bias", e)})
    if family == "gpt2":
        state["transformer.wpe.weight"] = w.whole("position_embedder.embedding", c.n_positions, e)
    if family == "opt":  # its table has two rows before the first position
        table = w.whole("position_embedder.embedding", c.max_position_embeddings + 2, e)
        state["model.decoder.embed_positions.weight"] = numpy.roll(table, 2, axis=0)
    return state


class Adapted(torch.nn.Module):
    """A frozen linear layer, plus alpha / rank B(A x), as peft's without dropout."""

    def __init__(self, frozen, a, b):
        super().__init__()
        self.frozen, self.a, self.b = frozen, torch.nn.Parameter(a), torch.nn.Parameter(b)

    def forward(self, x):
        return self.frozen(x) + ALPHA / RANK * (x @ self.a @ self.b)


def adapt(model, w, linears):
    """Puts an adapter beside each of these layers. Returns the parameters that are trained."""
    c = w.config
    d = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    shapes = {"query": (1, [c.hidden_size, c.num_attention_heads, d]), "out": (2, [c.num_attention_heads, d, c.hidden_size]),
              "key": (1, [c.hidden_size, c.num_key_value_heads, d]), "value": (1, [c.hidden_size, c.num_key_value_heads, d]),
              "wo": (1, [c.intermediate_size, c.hidden_size])}
    model.requires_grad_(False)
    for at, layer in enumerate(model.model.layers):
        for path, name in linears.items():
            parent = layer.self_attn if path.startswith("self") else layer.mlp
            inputs, shape = shapes.get(path.rsplit(".", 1)[-1], (1, [c.hidden_size, c.intermediate_size]))
            a = w.linear(at, path + ".lora_a", *shape[:inputs], RANK, inputs=inputs).T
            b = w.linear(at, path + ".lora_b", RANK, *shape[inputs:]).T
            setattr(parent, name, Adapted(getattr(parent, name), *(torch.tensor(x.copy()) for x in (a, b))))
    return [p for p in model.parameters() if p.requires_grad]


def fine_tune(family):
    """Loss and norm of the adapters' gradient, in each of some steps of plain gradient descent."""
    targets_word, linears = TUNED[family]
    model, w, said = loaded(family)
    trained, losses, norms = adapt(model, w, linears), [], []
    for _ in range(STEPS):
        loss = loss_of(model)
        model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        norms.append(sum(float((p.grad.double() ** 2).sum()) for p in trained) ** 0.5)
        with torch.no_grad():
            for p in trained:
                p -= RATE * p.grad
    return {"family": family, "config": said, "lora_rank": RANK, "lora_targets": targets_word, "lora_alpha": ALPHA,
            "learning_rate": RATE, "losses": losses, "gradient_norms": norms}


UNGATED = ("starcoder2", "falcon", "gpt2", "gpt_neox", "opt", "bloom")


def loaded(family):
    """The model with the test's weights, these, and what its configuration says."""
    name, arguments = FAMILIES[family]
    family = family.split("+")[0]
    config_class = "Gemma3TextConfig" if family == "gemma3" else f"{name}Config"
    config = getattr(transformers, config_class)(**arguments, attn_implementation="eager")
    model = getattr(transformers, name + ("LMHeadModel" if family == "gpt2" else "ForCausalLM"))(config).float().eval()
    dense_layers = getattr(config, "first_k_dense_replace", 0) if family.startswith("deepseek") else 0
    w = Weights(config, dense_layers)
    state = (ungated if family in UNGATED else llama_like)(family, w)
    parameters = dict(model.named_parameters())
    assert set(parameters) == set(state), (set(parameters) ^ set(state))
    with torch.no_grad():
        for key, array in state.items():
            assert tuple(parameters[key].shape) == array.shape, (key, parameters[key].shape, array.shape)
            parameters[key].copy_(torch.tensor(array.copy()))
    said = {key: value for key, value in json.loads(config.to_json_string(use_diff=False)).items()
            if key in arguments or key in KEPT}
    return model, w, said


def loss_of(model):
    inputs, targets = (torch.tensor(part) for part in batch())
    logits = model(input_ids=inputs, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))


def decoded(model):
    """Tokens that follow prompts of several lengths, each the most probable one, by way of transformers' cache; and for
    each row the sum of their log-probabilities."""
    tokens = (numpy.floor((number("prompts", ROWS * LENGTH) + 1) / 2 * (VOCAB - 1)) + 1).astype(int).reshape(ROWS, LENGTH)
    tokens[:, 0] = 0
    rows, sums = [], []
    for row in range(ROWS):
        fed, cache, made, log_prob = torch.tensor(tokens[None, row, : 2 + row]), None, [], 0.0
        while len(made) < LENGTH - 1 - row:
            seen = torch.ones(1, 2 + row + len(made), dtype=int)
            out = model(input_ids=fed, attention_mask=seen, past_key_values=cache, use_cache=True)
            cache, chosen = out.past_key_values, torch.log_softmax(out.logits[0, -1].double(), -1).max(-1)
            log_prob += chosen.values.item()
            made.append(chosen.indices.item())
            fed = chosen.indices.reshape(1, 1)
        rows.append(made)
        sums.append(log_prob)
    return rows, sums


def step(family):
    model, _, said = loaded(family)
    with torch.no_grad():
        rows, sums = decoded(model)
    loss = loss_of(model)
    loss.backward()
    squares = {key: float((p.grad.double() ** 2).sum()) for key, p in model.named_parameters()}
    assert all(square > 0 for square in squares.values()), squares
    return {"family": family, "config": said, "loss": loss.item(), "gradient_norm": sum(squares.values()) ** 0.5,
            "decoded": rows, "log_probs": sums}


KEPT = ("model_type", "tie_word_embeddings", "hidden_act", "hidden_activation", "activation_function", "rms_norm_eps",
        "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "rope_parameters", "attention_bias", "norm_topk_prob",
        "routed_scaling_factor", "no_rope_layers", "multi_query", "parallel_attn", "new_decoder_architecture", "alibi", "swiglu_limit",
        "num_local_experts", "num_experts", "n_routed_experts", "use_parallel_residual", "do_layer_norm_before", "enable_bias", "use_bias")


def write(path, rows):
    with open(path, "w") as out:
        out.write("[" + ",\n ".join(json.dumps(made) for made in rows) + "]\n")


def main():
    folder, families = sys.argv[1], sys.argv[2:] or FAMILIES
    write(f"{folder}/transformers_steps.json", [step(family) for family in families])
    write(f"{folder}/transformers_fine_tunes.json", [fine_tune(family) for family in TUNED if family in families])
    inputs, targets = batch()
    with open(f"{folder}/transformers_batch.jsonl", "w") as out:
        out.write(json.dumps({"decoder_input_tokens": inputs.tolist(), "decoder_target_tokens": targets.tolist(),
                              "decoder_loss_weights": numpy.ones((ROWS, LENGTH), int).tolist()}) + "\n")


main()
