# ---- the same step on devices that are there: initial values and data are those of `meshwright run` ----

# Numbers of 64 bits are pairs of 32, high and low: JAX has no others unless it is told to.


def halves(number):
    import numpy as np
    return np.uint32(number >> 32 & 0xffffffff), np.uint32(number & 0xffffffff)


def product_high(a, b):
    """The upper 32 bits of a product of two numbers of 32."""
    a1, a0, b1, b0 = a >> 16, a & 0xffff, b >> 16, b & 0xffff
    middle = a1 * b0 + (a0 * b0 >> 16)
    return a1 * b1 + (middle >> 16) + (a0 * b1 + (middle & 0xffff) >> 16)


def times(x, y):
    return product_high(x[1], y[1]) + x[0] * y[1] + x[1] * y[0], x[1] * y[1]


def plus(x, y):
    low = x[1] + y[1]
    return x[0] + y[0] + (low < x[1]).astype('uint32'), low


def folded(x, right):
    """x ^ x >> right, of less than 32."""
    return x[0] ^ x[0] >> right, x[1] ^ (x[1] >> right | x[0] << 32 - right)


def mix(x):
    """A step of splitmix64 (Steele, Lea, Flood, 2014)."""
    x = times(folded(plus(x, halves(0x9e3779b97f4a7c15)), 30), halves(0xbf58476d1ce4e5b9))
    return folded(times(folded(x, 27), halves(0x94d049bb133111eb)), 31)


def key_of(path):
    import numpy as np
    with np.errstate(over='ignore'):
        key = mix(halves(PLAN['seed']))
        for c in f"target.{path.replace('/', '.')}".encode():
            key = mix((key[0], key[1] ^ np.uint32(c)))
    return key


def normal(bits):
    import jax.numpy as jnp
    upper, lower = ((x.astype(jnp.float32) * 2**-24 for x in ((bits[0] >> 8) + 1, bits[1] & 0xffffff)))
    return jnp.sqrt(-2 * jnp.log(upper)) * jnp.cos(6.283185307179586 * lower)


def truncated_normal(bits):
    """Within two standard deviations: what is not is drawn again."""
    import jax.numpy as jnp
    from jax import lax

    def again(state):
        bits, x, i = state
        bits = tuple(jnp.where(jnp.abs(x) > 2, new, old) for new, old in zip(mix(bits), bits))
        return bits, jnp.where(jnp.abs(x) > 2, normal(bits), x), i + 1

    missing = lambda state: jnp.any(jnp.abs(state[1]) > 2) & (state[2] < 64)
    _, x, _ = lax.while_loop(missing, again, (bits, normal(bits), 0))
    return jnp.where(jnp.abs(x) > 2, 0, x)


def initializer_of(path, of):
    """The distribution that T5X draws a parameter from, and its scale."""
    embed, hidden, width = MODEL['emb_dim'], MODEL['mlp_dim'], MODEL['num_heads'] * MODEL['head_dim']
    name = path.split('/')[-2] if path.endswith('/kernel') else path.split('/')[-1]
    if name == 'scale':
        return 'ones', 1
    if name == 'embedding':
        return 'normal', 1
    if name == 'rel_embedding':
        return 'uniform', (3 / ((MODEL['num_heads'] + of['shape'][-1]) / 2))**0.5
    if name in ('query', 'key', 'value'):
        return 'normal', (1 / embed / (MODEL['head_dim'] if name == 'query' else 1))**0.5
    if name == 'out':
        return 'normal', (1 / width)**0.5
    return 'truncated normal', (1 / (hidden if name == 'wo' else embed))**0.5 / 0.87962566103423978


def initial_value(path, of):
    """A function that draws the parameter from its key; an element's number is that in the whole array, so that no
    sharding changes it."""
    import jax.numpy as jnp
    from jax import lax
    distribution, scale = initializer_of(path, of)
    shape = tuple(of['shape'])

    def draw(key):
        number, stride = (jnp.zeros(shape, jnp.uint32),) * 2, 1
        for d in reversed(range(len(shape))):
            at = lax.broadcasted_iota(jnp.uint32, shape, d)
            number = plus(number, times((jnp.zeros_like(at), at), halves(stride)))
            stride *= shape[d]
        bits = mix((number[0] ^ key[0], number[1] ^ key[1]))
        values = {'ones': lambda: jnp.ones(shape), 'normal': lambda: normal(bits),
                  'uniform': lambda: 2 * ((bits[1] & 0xffffff).astype(jnp.float32) * 2**-24) - 1,
                  'truncated normal': lambda: truncated_normal(bits)}[distribution]()
        return (jnp.float32(scale) * values).astype(jnp.float32)

    return (tuple(shape), distribution, scale), draw


def initial_state(state):
    import jax
    import jax.numpy as jnp
    count, optimizer, params = state
    made, drawn = {}, {}
    for path, array in params.items():
        kind, draw = initial_value(path, PARAMETERS[path])
        kind += (array.sharding,)
        drawn[kind] = drawn.get(kind) or jax.jit(draw, out_shardings=array.sharding)
        made[path] = drawn[kind](key_of(path))
    zeros = lambda array: jax.device_put(jnp.zeros(array.shape, array.dtype), array.sharding)
    return zeros(count), jax.tree.map(zeros, optimizer), made


def random_tokens(step, counts):
    """Lists of tokens from 1 up, by PCG32 (O'Neill, 2014), as many as counts say."""
    import numpy as np
    u64, mask = np.uint64, (1 << 64) - 1
    factor, stream = 6364136223846793005, 0xda3e39cb94b95bdb
    state = (stream + PLAN['seed'] * 0x9e3779b97f4a7c15 + step) * factor + stream & mask
    draws = 2 * sum(counts)
    with np.errstate(over='ignore'):
        powers = np.cumprod(np.concatenate([[u64(1)], np.full(draws - 1, factor, u64)]))
        states = powers * u64(state) + u64(stream) * np.concatenate([[u64(0)], np.cumsum(powers)[:-1]])
    mixed = (states >> u64(18) ^ states) >> u64(27) & u64(0xffffffff)
    turn = states >> u64(59)
    words = (mixed >> turn | mixed << (u64(32) - turn & u64(31))) & u64(0xffffffff)
    numbers = words[0::2] << u64(32) | words[1::2]
    tokens = (1 + numbers % u64(MODEL['vocab_size'] - 1)).astype(np.int32)
    return np.split(tokens, np.cumsum(counts)[:-1])


def make_batch(step, shapes):
    import jax
    import numpy as np
    names = (['encoder_input_tokens'] if ENCODER else []) + ['decoder_target_tokens']
    made = {name: tokens.reshape(shapes[name].shape)
            for name, tokens in zip(names, random_tokens(step, [shapes[name].size for name in names]))}
    targets = made['decoder_target_tokens']
    made['decoder_input_tokens'] = np.pad(targets[:, :-1], ((0, 0), (1, 0)))
    made['decoder_loss_weights'] = (targets != 0).astype(np.int32)
    return {name: jax.make_array_from_callback(shape.shape, shape.sharding, lambda index, x=made[name]: x[index])
            for name, shape in shapes.items()}


def there_mesh():
    """The plan's mesh of the devices that JAX finds: TPUs by their place on the torus, others by node and number."""
    import jax
    import numpy as np
    from jax.sharding import Mesh
    t, places = PLAN['topology'], [tuple(c) for c in PLAN['mesh']['devices']]
    if len({place[0] for place in places}) > 1 and t['platform'] == 'gpu':
        jax.distributed.initialize()  # nodes of a job, which JAX finds by itself under Slurm and Open MPI
    found = jax.devices()
    if found[0].platform != t['platform']:
        raise SystemExit(f"the plan is for {t['name']}, and JAX finds no {t['platform']} here, only: "
                         f"{found[0].device_kind}")
    if t['platform'] == 'tpu':
        by_place = {tuple(d.coords) + (d.core_on_chip,): d for d in found}
    else:
        by_place = dict(zip(sorted(places), sorted(found, key=lambda d: (d.process_index, d.id))))
    missing = [place for place in places if place not in by_place]
    if missing:
        raise SystemExit(f"the plan is for {t['name']}, {len(places)} devices, and JAX finds {len(found)} here; none at "
                         f"{missing[0]}")
    devices = np.array([by_place[place] for place in places], dtype=object)
    return Mesh(devices.reshape(PLAN['mesh']['shape']), tuple(PLAN['mesh']['axes']))


def device_memory(mesh):
    """Bytes of the device that held the most so far, as its allocator counts them; None where it does not."""
    import jax
    seen = [d.memory_stats() for d in mesh.devices.flat if d.process_index == jax.process_index()]
    return max(s['peak_bytes_in_use'] for s in seen) if all(s and 'peak_bytes_in_use' in s for s in seen) else None


def time_steps(compiled, state, batches, seconds):
    """Steps that are started one behind another, as T5X does, and waited for at the end."""
    import jax
    began, losses = time.perf_counter(), []
    for batch in batches:
        state, metrics = compiled(state, batch)
        losses.append(metrics['loss'][0])
    jax.block_until_ready((state, losses))
    seconds.append((time.perf_counter() - began) / max(len(batches), 1))
    return state, losses


def run_step(answer, steps, folder, tell):
    """Three steps to warm up, and then stretches of steps. The answer grows as things become known, and is told before
    and after what may fail."""
    import jax
    warm, stretches = 3, min(3, steps)
    mesh = there_mesh()
    answer.update(device_kind=mesh.devices.flat[0].device_kind, device_count=mesh.size, jax=jax.__version__)
    shapes, batch = arguments(mesh)
    began = time.perf_counter()
    compiled = lower_step(mesh).compile()
    analysis = compiled.memory_analysis()
    answer.update(compile_s=time.perf_counter() - began,
                  **{f'{what}_bytes': getattr(analysis, f'{what}_size_in_bytes')
                     for what in ('argument', 'output', 'alias', 'temp')})
    text = compiled.as_text()
    answer['rematerialized'] = text.count('.remat')
    if folder:
        open(os.path.join(folder, 'step.hlo'), 'w').write(text)
    answer['compiled_bytes'] = (answer['argument_bytes'] + answer['output_bytes'] - answer['alias_bytes'] +
                                answer['temp_bytes'])
    tell(answer)
    batches = [make_batch(step, batch) for step in range(warm + steps)]
    state = initial_state(shapes)
    jax.block_until_ready(state)
    answer['initial_peak_bytes'] = device_memory(mesh)
    state, losses = time_steps(compiled, state, batches[:warm], [])
    seconds, at = [], warm
    for i in range(stretches):
        count = (steps - (at - warm)) // (stretches - i)
        state, more = time_steps(compiled, state, batches[at:at + count], seconds)
        losses, at = losses + more, at + count
    answer.update(step_s=sorted(seconds)[len(seconds) // 2], stretches_s=seconds, loss=[float(x) for x in losses],
                  peak_memory_bytes=device_memory(mesh), fits=True)
    tell(answer)
    if folder:
        with jax.profiler.trace(folder):
            time_steps(compiled, state, batches[:1], [])


def run_in_child(options, log, result):
    """In a process of its own, which the time limit can end whatever it is at."""
    child = os.fork()
    if child:
        return child
    answer, status = {'fits': None, 'message': ''}, 1

    def tell(answer):
        text = json.dumps(answer).encode()
        os.ftruncate(result, 0)
        os.pwrite(result, text, 0)

    try:
        if PLAN['topology']['platform'] == 'cpu':
            flag = f"--xla_force_host_platform_device_count={len(PLAN['mesh']['devices'])}"
            os.environ.update(JAX_PLATFORMS='cpu', XLA_FLAGS=f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip())
        for stream in (1, 2):
            os.dup2(log, stream)
        run_step(answer, options.run, options.dump, tell)
        status = 0
    except BaseException as error:
        refused = any(words in str(error) for words in ('RESOURCE_EXHAUSTED', 'Out of memory'))
        answer.update(message=str(error)[:2000], fits=False if refused else answer['fits'])
        tell(answer)
        os.write(log, f'\n{type(error).__name__}: {error}\n'.encode())
    finally:
        os._exit(status)


def run_there(options):
    log = os.open(os.path.join(options.dump, 'run.log') if options.dump else os.devnull, os.O_RDWR | os.O_CREAT)
    began, ended = time.monotonic(), False
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryFile() as result:
        child = run_in_child(options, log, result.fileno())
        try:
            while not ended and time.monotonic() - began < options.time_limit:
                ended = os.waitpid(child, os.WNOHANG)[0] == child
                time.sleep(0.05)
        finally:
            if not ended:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        answer = json.loads(result.read() or '{"fits": null, "message": ""}')
    if answer['fits'] is None and not answer['message']:
        answer['message'] = 'its process died' if ended else 'the time limit was reached'
    return {**answer, 'limit_bytes': PLAN['limit_bytes'], 'seconds': round(time.monotonic() - began, 1)}


