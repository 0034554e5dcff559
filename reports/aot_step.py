# Everything below is the same for every plan: network, loss, optimizer and microbatches of T5X in plain JAX. The real
# compiler compiles it for the slice that PLAN names, and no TPU is needed, only: pip install 'jax[tpu]'. With --run it
# runs on the devices that PLAN names, TPUs or GPUs, where they are.
import argparse
import glob
import os
import re
import shutil
import signal
import sys
import tempfile
import time

MODEL = PLAN['model']
PARAMETERS = PLAN['parameters']  # path: shape, logical axes, and what v_row and v_col average over, if factored
SCANNED = MODEL['architecture'].startswith('scalable')
ENCODER = MODEL['architecture'].endswith('encoder_decoder')


# ---- shardings: flax's rules from logical to mesh axes; the first rule that can be applied is final ----


def mesh_axes(names):
    spec, used, open_ = [None] * len(names), set(), set(range(len(names)))
    for name, value in PLAN['logical_axis_rules']:
        axes = [] if value is None else [value] if isinstance(value, str) else list(value)
        at = names.index(name) if name in names else -1
        if at in open_ and not used & set(axes):
            spec[at] = None if not axes else axes[0] if len(axes) == 1 else tuple(axes)
            used |= set(axes)
            open_.remove(at)
    return spec


def sharding(mesh, names):
    from jax.sharding import NamedSharding, PartitionSpec
    return NamedSharding(mesh, PartitionSpec(*mesh_axes(names)))


# ---- the network ----


STACKS = ('encoder', 'decoder') if ENCODER else ('decoder',)
SUBLAYERS = {'encoder': ('attention', 'mlp'),
             'decoder': ('self_attention',) + (('encoder_decoder_attention',) if ENCODER else ()) + ('mlp',)}
NORM_OF = {'attention': 'pre_attention_layer_norm', 'self_attention': 'pre_self_attention_layer_norm',
           'encoder_decoder_attention': 'pre_cross_attention_layer_norm'}


def build_step(mesh):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    dtype = jnp.dtype(PLAN['dtype'])
    f32 = jnp.float32

    def constrain(x, *names):
        return lax.with_sharding_constraint(x, sharding(mesh, list(names)))

    def constrain_if_scanned(x):
        return constrain(x, 'batch', 'length', 'embed') if SCANNED else x

    def norm(x, scale):
        x = jnp.asarray(x, f32)
        mean2 = jnp.mean(lax.square(x), axis=-1, keepdims=True)
        return jnp.asarray(x * lax.rsqrt(mean2 + 1e-6), dtype) * jnp.asarray(scale, dtype)

    def dense(x, kernel, shape, dims=1, to=dtype):
        """Contracts the last dims dimensions of x with the first of the kernel, which is shape once it is split."""
        kernel = jnp.reshape(jnp.asarray(kernel, to), shape)
        own = tuple(range(x.ndim - dims, x.ndim))
        return lax.dot_general(jnp.asarray(x, to), kernel, ((own, tuple(range(dims))), ((), ())))

    def relative_position_bias(table, queries, keys, bidirectional):
        n = np.arange(queries)[:, None] - np.arange(keys)[None, :]
        side = 16 if bidirectional else 32
        bucket = (n < 0).astype(np.int32) * 16 if bidirectional else np.zeros_like(n, np.int32)
        n = np.abs(n) if bidirectional else np.maximum(n, 0)
        exact = side // 2
        far = exact + (np.log(n.astype(np.float32) / exact + np.finfo(np.float32).eps) / np.log(128 / exact) *
                       (side - exact)).astype(np.int32)
        bucket = bucket + np.where(n < exact, n, np.minimum(far, side - 1))
        one_hot = jnp.array(bucket[None] == lax.broadcasted_iota(jnp.int32, (32, 1, 1), 0), dtype)
        return lax.dot_general(jnp.asarray(table, dtype), one_hot, (((1,), (0,)), ((), ())))[None]

    def attend(p, q_from, kv_from, mask, bias):
        e, h, d, g = MODEL['emb_dim'], MODEL['num_heads'], MODEL['head_dim'], MODEL['num_kv_heads']
        q = constrain(dense(q_from, p['query/kernel'], (e, h, d)), 'batch', 'length', 'heads', 'kv')
        k = constrain(dense(kv_from, p['key/kernel'], (e, g, d)), 'batch', 'length', 'heads', 'kv')
        v = constrain(dense(kv_from, p['value/kernel'], (e, g, d)), 'batch', 'length', 'heads', 'kv')
        if g != h:
            k, v = (jnp.repeat(x, h // g, axis=2) for x in (k, v))
        masked = lax.select(mask > 0, jnp.full(mask.shape, 0.).astype(dtype), jnp.full(mask.shape, -1e10).astype(dtype))
        bias = masked if bias is None else masked + bias
        if MODEL['float32_attention_logits']:
            q, k = q.astype(f32), k.astype(f32)
        scores = jnp.einsum('bqhd,bkhd->bhqk', q, k)
        weights = jax.nn.softmax(scores + bias.astype(scores.dtype)).astype(dtype)
        return dense(jnp.einsum('bhqk,bkhd->bqhd', weights, v), p['out/kernel'], (h, d, e), dims=2)

    ACTIVATIONS = {'linear': lambda x: x, 'gelu': jax.nn.gelu, 'relu': jax.nn.relu, 'silu': jax.nn.silu,
                   'swish': jax.nn.swish}

    def mlp(p, x):
        e, f, names = MODEL['emb_dim'], MODEL['mlp_dim'], MODEL['mlp_activations'].split('+')
        kernels = ['wi'] if len(names) == 1 else [f'wi_{i}' for i in range(len(names))]
        hidden = None
        for kernel, name in zip(kernels, names):
            y = ACTIVATIONS[name](dense(x, p[f'{kernel}/kernel'], (e, f)))
            hidden = y if hidden is None else hidden * y
        return dense(constrain(hidden, 'batch', 'length', 'mlp'), p['wo/kernel'], (f, e))

    def scope(p, name):
        return {path[len(name) + 1:]: x for path, x in p.items() if path.startswith(name + '/')}

    def layer(stack, p, relpos, x, encoded, mask, cross_mask):
        bias = relative_position_bias(relpos, x.shape[-2], x.shape[-2], stack == 'encoder')
        x = constrain_if_scanned(x)
        self_name = SUBLAYERS[stack][0]
        y = constrain_if_scanned(norm(x, p[f'{NORM_OF[self_name]}/scale']))
        out = attend(scope(p, self_name), y, y, mask, bias)
        if MODEL['parallel_block']:
            return constrain_if_scanned(out + mlp(scope(p, 'mlp'), y) + x)
        x = constrain_if_scanned(out + x)
        if 'encoder_decoder_attention' in SUBLAYERS[stack]:
            y = constrain_if_scanned(norm(x, p['pre_cross_attention_layer_norm/scale']))
            x = constrain_if_scanned(attend(scope(p, 'encoder_decoder_attention'), y, encoded, cross_mask, None) + x)
        y = constrain_if_scanned(norm(x, p['pre_mlp_layer_norm/scale']))
        return constrain_if_scanned(mlp(scope(p, 'mlp'), y) + x)

    def remat(body):
        if PLAN['remat_policy'] == 'none':
            return body
        policy = jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims if PLAN['remat_policy'] == 'minimal' else None
        return jax.checkpoint(body, prevent_cse=not SCANNED, policy=policy)

    def run_stack(stack, params, x, encoded, mask, cross_mask):
        p, n = scope(params, stack), MODEL[f'num_{stack}_layers']
        if SCANNED:
            stacked = {path: jnp.moveaxis(kernel, 1, 0) for path, kernel in scope(p, stack).items()}
            body = remat(lambda q, *rest: layer(stack, q, q['relpos_bias/rel_embedding'], *rest))
            x, _ = lax.scan(lambda y, q: (body(q, y, encoded, mask, cross_mask), None), x, stacked, length=n)
        else:
            body = remat(lambda *all: layer(stack, *all))
            for i in range(n):  # a table of the stack's, asked in every layer, as T5X does
                x = body(scope(p, f'layers_{i}'), p['relpos_bias/rel_embedding'], x, encoded, mask, cross_mask)
        return norm(x, p[f'{stack}_norm/scale'])

    def embed(table, tokens):
        one_hot = jnp.array(tokens[..., None] == lax.iota(jnp.int32, MODEL['vocab_size']), dtype)
        return jnp.dot(one_hot, jnp.asarray(table, dtype))

    def pair_mask(queries, keys, compare=jnp.multiply):
        return compare(queries[..., None], keys[..., None, :])[..., None, :, :].astype(dtype)

    def network(params, batch):
        targets = batch['decoder_target_tokens']
        positions = jnp.broadcast_to(jnp.arange(targets.shape[-1], dtype=jnp.int32), targets.shape)
        decoder_mask = jnp.logical_and(pair_mask(positions, positions, jnp.greater_equal),
                                       pair_mask(targets > 0, targets > 0)).astype(dtype)
        encoded = cross_mask = None
        if ENCODER:
            tokens = batch['encoder_input_tokens']
            table = params['token_embedder/embedding']
            x = embed(table, tokens)
            encoded = run_stack('encoder', params, x, None, pair_mask(tokens > 0, tokens > 0), None)
            cross_mask = pair_mask(targets > 0, tokens > 0)
        else:
            table = params['decoder/token_embedder/embedding']
        y = run_stack('decoder', params, embed(table, batch['decoder_input_tokens']), encoded, decoder_mask, cross_mask)
        if MODEL['logits_via_embedding']:
            return jnp.dot(y, jnp.asarray(table, f32).T) / jnp.sqrt(y.shape[-1])
        return dense(y, params['decoder/logits_dense/kernel'], (MODEL['emb_dim'], MODEL['vocab_size']), to=f32)

    # ---- loss with z_loss, and a gradient of its own as T5X's has ----

    @jax.custom_vjp
    def cross_entropy(logits, targets, z_loss):
        return cross_entropy_forward(logits, targets, z_loss)[0]

    def cross_entropy_forward(logits, targets, z_loss):
        top = logits.max(axis=-1, keepdims=True)
        shifted = logits - top
        exponentials = jnp.exp(shifted)
        total = jnp.sum(exponentials, axis=-1, keepdims=True)
        log_softmax = shifted - jnp.log(total)
        log_z = jnp.squeeze(jnp.log(total) + top, axis=-1)
        z_term = z_loss * lax.square(log_z)
        loss = -jnp.sum(targets * log_softmax, axis=-1) + z_term
        return (loss, z_term), (logits, targets, z_loss, exponentials, total, log_softmax, log_z)

    def cross_entropy_backward(kept, cotangents):
        logits, targets, z_loss, exponentials, total, log_softmax, log_z = kept
        g = jnp.expand_dims(cotangents[0], -1)
        slope = jnp.expand_dims(1 + 2 * z_loss * log_z, -1) * exponentials / total - targets
        return (g * slope).astype(logits.dtype), (-g * log_softmax).astype(targets.dtype), jnp.array(0.0)

    cross_entropy.defvjp(cross_entropy_forward, cross_entropy_backward)

    def metrics(batch, loss, z_loss, right, weight):
        """What T5X sums up beside the loss, each with what it is divided by; the host's clock comes to rates later."""
        targets = batch['decoder_target_tokens']
        rows, tokens, devices = targets.shape[0], targets.size, mesh.size
        of = {'accuracy': (right, weight), 'loss': (loss, 1), 'z_loss': (z_loss, 1), 'cross_ent_loss': (loss - z_loss, 1),
              'loss_per_nonpadding_target_token': (loss, weight), 'loss_per_all_target_tokens': (loss, tokens),
              'z_loss_per_all_target_tokens': (z_loss, tokens),
              'cross_ent_loss_per_all_target_tokens': (loss - z_loss, tokens), 'timing/steps_per_second': (1, 0),
              'timing/seqs_per_second': (rows, 0), 'timing/seqs_per_second_per_core': (rows / devices, 0),
              'timing/target_tokens_per_second': (tokens, 0),
              'timing/target_tokens_per_second_per_core': (tokens / devices, 0), 'timing/seqs': (rows,),
              'timing/seconds': (0,), 'non_padding_fraction/loss_weights': (weight, tokens)}
        if ENCODER:
            for side, name in (('encoder', 'encoder_input_tokens'), ('decoder', 'decoder_target_tokens')):
                of[f'non_padding_fraction/{side}'] = (jnp.sum(batch[name] != 0), batch[name].size)
        return {name: tuple(jnp.asarray(x, f32) for x in pair) for name, pair in of.items()}

    def loss_and_metrics(params, batch):
        logits, targets, weights = network(params, batch), batch['decoder_target_tokens'], batch['decoder_loss_weights']
        hits = targets[..., None] == jnp.arange(logits.shape[-1]).reshape((1,) * targets.ndim + (-1,))
        one_hot = lax.select(hits, jnp.full(hits.shape, 1.), jnp.full(hits.shape, 0.)).astype(f32)
        losses, z_terms = cross_entropy(logits, one_hot, PLAN['z_loss'])
        factor = PLAN['batch_size'] * PLAN['task_feature_lengths']['targets']
        loss, z_loss = jnp.sum(losses * weights / factor), jnp.sum(z_terms * weights / factor)
        right = jnp.sum(jnp.equal(jnp.argmax(logits, axis=-1), targets) * weights)
        return loss, metrics(batch, loss, z_loss, right, jnp.sum(weights))

    def gradients(params, batch):
        grad_fn, count = jax.value_and_grad(loss_and_metrics, has_aux=True), PLAN['num_microbatches']
        if count <= 1:
            (_, metrics), grads = grad_fn(params, batch)
            return grads, metrics
        rows = PLAN['batch_size'] // count

        def one(i):
            micro = {k: lax.dynamic_slice(x, (i * rows, 0), (rows, x.shape[1])) for k, x in batch.items()}
            return grad_fn(params, {k: constrain(x, 'batch') for k, x in micro.items()})

        def body(i, state):
            sums, seen = state
            (_, metrics), grads = one(i)
            seen = lax.cond(i == 0, lambda _: metrics, lambda _: jax.tree.map(jnp.add, seen, metrics), None)
            return jax.tree.map(jnp.add, sums, grads), seen

        zeros = {path: jnp.zeros(x.shape, f32) for path, x in params.items()}
        shapes = jax.eval_shape(lambda: one(0)[0][1])
        return lax.fori_loop(0, count, body, (zeros, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)))

    # ---- optimizers ----

    rate = PLAN['learning_rate']
    def adafactor(step, path, param, state, grad):
        averaged = tuple(d for d, axis in enumerate(PARAMETERS[path]['axes']) if axis != 'layers')
        v_row, v_col, v, _ = state
        new_row = new_col = new_v = jnp.zeros((1,))
        decay = 1.0 - (step.astype(f32) + 1.0)**-0.8
        scale = rate * jnp.maximum(jnp.sqrt(jnp.mean(param * param, axis=averaged, keepdims=True)), 1e-3)
        square = grad * grad + 1e-30
        if PARAMETERS[path]['factored']:
            d0, d1 = (tuple(d) for d in PARAMETERS[path]['factored'])
            new_row = decay * v_row + (1.0 - decay) * jnp.mean(square, axis=d0)
            new_col = decay * v_col + (1.0 - decay) * jnp.mean(square, axis=d1)
            left = tuple(d - sum(e < d for e in d0) for d in d1)
            row = (new_row / jnp.mean(new_row, axis=left, keepdims=True))**-0.5
            y = grad * jnp.expand_dims(row, d0) * jnp.expand_dims(new_col**-0.5, d1)
        else:
            new_v = decay * v + (1.0 - decay) * square
            y = grad * new_v**-0.5
        y /= jnp.maximum(1.0, jnp.sqrt(jnp.mean(y * y, axis=averaged, keepdims=True)))
        return (param - scale * y).astype(param.dtype), (new_row, new_col, new_v, jnp.zeros((1,)))

    def apply_adafactor(step, states, params, grads):
        made = {path: adafactor(step, path, params[path], states[path], grads[path].astype(f32)) for path in params}
        return {path: m[1] for path, m in made.items()}, {path: m[0] for path, m in made.items()}

    def apply_adamw(step, state, params, grads):
        count, mu, nu = state
        each = jax.tree.map
        mu = each(lambda g, m: (1 - 0.9) * g + 0.9 * m, grads, mu)
        nu = each(lambda g, n: (1 - 0.999) * g**2 + 0.999 * n, grads, nu)
        count = count + 1
        updates = each(lambda m, n: m / (1 - 0.9**count) / (jnp.sqrt(n / (1 - 0.999**count)) + 1e-8), mu, nu)
        updates = each(lambda u, p: -rate * (u + 1e-4 * p), updates, params)
        return (count, mu, nu), each(lambda p, u: (p + u).astype(p.dtype), params, updates)

    def apply_lion(step, state, params, grads):
        count, mu = state
        each = jax.tree.map
        signs = each(lambda g, m: jnp.sign((1 - 0.9) * g + 0.9 * m), grads, mu)
        mu = each(lambda g, m: (1 - 0.99) * g + 0.99 * m, grads, mu)
        updates = each(lambda u, p: -rate * (u + 1e-3 * p), signs, params)
        return (count + 1, mu), each(lambda p, u: (p + u).astype(p.dtype), params, updates)

    def apply_sgd(step, state, params, grads):
        return state, jax.tree.map(lambda p, g: p - rate * g, params, grads)

    apply = {'adafactor': apply_adafactor, 'adamw': apply_adamw, 'lion': apply_lion,
             'sgd': apply_sgd}[PLAN['optimizer']]

    def step(state, batch):
        count, optimizer, params = state
        grads, metrics = gradients(params, batch)
        optimizer, params = apply(count, optimizer, params, grads)
        return (count + 1, optimizer, params), metrics

    return step


# ---- shapes and shardings of the step's arguments ----


def arguments(mesh):
    import jax
    import jax.numpy as jnp
    whole = sharding(mesh, [])

    def array(shape, names=(), dtype=jnp.float32):
        return jax.ShapeDtypeStruct(tuple(shape), dtype, sharding=sharding(mesh, list(names)) if names else whole)

    def adafactor_state(of):
        shape, one = of['shape'], array((1,))
        if not of['factored']:
            return one, one, array(shape, of['axes']), one
        left = [[n for d, n in enumerate(shape) if d not in dims] for dims in of['factored']]
        return array(left[0]), array(left[1]), one, one

    params = {path: array(of['shape'], of['axes']) for path, of in PARAMETERS.items()}
    optimizer = {'adafactor': lambda: {path: adafactor_state(of) for path, of in PARAMETERS.items()},
                 'adamw': lambda: (array((), (), jnp.int32), params, params),
                 'lion': lambda: (array((), (), jnp.int32), params), 'sgd': lambda: ()}[PLAN['optimizer']]()
    lengths, rows = PLAN['task_feature_lengths'], PLAN['batch_size']
    features = {k: 'targets' for k in ('decoder_input_tokens', 'decoder_target_tokens', 'decoder_loss_weights')}
    if ENCODER:
        features['encoder_input_tokens'] = 'inputs'
    batch = {k: array((rows, lengths[of]), ['batch'], jnp.int32) for k, of in features.items()}
    return (array((), (), jnp.int32), optimizer, params), batch


def make_mesh():
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh
    t = PLAN['topology']
    slice_ = topologies.get_topology_desc(platform='tpu', topology_name=t['name'],
                                          chip_config_name=t['chip_config_name'],
                                          chips_per_host_bounds=tuple(t['chips_per_host_bounds']),
                                          num_slices=t['num_slices'])
    by_place = {tuple(d.coords) + (d.core_on_chip,): d for d in slice_.devices}
    devices = np.array([by_place[tuple(c)] for c in PLAN['mesh']['devices']], dtype=object)
    return Mesh(devices.reshape(PLAN['mesh']['shape']), tuple(PLAN['mesh']['axes']))


def lower_step(mesh):
    import jax
    state, batch = arguments(mesh)
    kept = jax.tree.map(lambda x: x.sharding, state)
    return jax.jit(build_step(mesh), out_shardings=(kept, None), donate_argnums=0).lower(state, batch)


