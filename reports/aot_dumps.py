# ---- what the compiler dumps ----


def first(pattern, text, default=''):
    found = re.search(pattern, text)
    return found.group(1) if found else default


def dumped(folder, name):
    """The text of the step's dump of that name; '' while there is none."""
    paths = glob.glob(os.path.join(folder, f'*jit_*step*{name}'))
    return open(paths[0]).read() if paths else ''


def read_total(folder):
    """What is held against the limit: arguments, results that take no argument's place, and the heap of temporaries.
    Written when every buffer has its place, before code is generated; 0 before that."""
    return int(first(r'Memory Space: default \(color=0\)\s+Total bytes: (\d+)',
                     dumped(folder, 'after_optimizations-memory-usage-report.txt'), '0'))


def read_allocations(folder):
    """Bytes of arguments, results, what these share, and temporaries."""
    out = {'argument_bytes': 0, 'output_bytes': 0, 'alias_bytes': 0, 'temp_bytes': 0}
    text = dumped(folder, 'after_optimizations-buffer-assignment.txt')
    for size, what in re.findall(r'^allocation \d+: size (\d+), (.*):$', text, re.M):
        size, argument, result = int(size), what.startswith('parameter'), 'maybe-live-out' in what
        out['argument_bytes'] += size * argument
        out['output_bytes'] += size * result
        out['alias_bytes'] += size * (argument and result)
        if what == 'preallocated-temp':
            out['temp_bytes'] = max(out['temp_bytes'], size)
    return out


ELEMENT_BYTES = {'f32': 4, 's32': 4, 'u32': 4, 'bf16': 2, 'f16': 2, 'u16': 2, 'pred': 1, 's8': 1, 'u8': 1}
COLLECTIVE = re.compile(r' = (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(-start)?\(')


def array_bytes(text):
    """Of each array in a type: of a tuple all of them."""
    sizes = []
    for dtype, dims in re.findall(r'\b(\w+)\[([\d,]*)\]', text):
        count = ELEMENT_BYTES.get(dtype, 0)
        for extent in filter(None, dims.split(',')):
            count *= int(extent)
        sizes.append(count)
    return sizes


def operand_bytes(kind, started, made, members):
    """What one device hands in, of what the instruction makes: one that is started apart makes its operand, its result
    and counters."""
    sizes = array_bytes(made)
    if started and kind != 'all-reduce':
        return sizes[0]
    if kind == 'all-gather':
        return sum(sizes) // max(members, 1)
    return sum(sizes) * (max(members, 1) if kind == 'reduce-scatter' else 1)


def first_group(line):
    """The devices that the first group of a collective joins, in any of the ways in which XLA writes groups."""
    import numpy as np
    listed = first(r'(?:replica_groups|source_target_pairs)=\{\{([\d,]*)\}', line)
    iota = re.search(r'replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?', line)
    named = re.search(r'replica_groups=mesh\[([^\]]*)\](.*?)\{([^}]*)\}', line)
    if listed:
        return [int(i) for i in listed.split(',')]
    if iota:
        dims, order = [int(d) for d in iota.group(2).split(',')], iota.group(3)
        ids = np.arange(np.prod(dims)).reshape(dims)
        ids = ids.transpose([int(d) for d in order.split(',')]) if order else ids
        return ids.reshape([int(d) for d in iota.group(1).split(',')])[0].tolist()
    if named:
        sizes = [(name, int(n)) for name, n in re.findall(r"'(\w+)'=(\d+)", named.group(1))]
        ids = np.arange(np.prod([n for _, n in sizes]))
        order = re.search(r'device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\)', named.group(0))
        if order:
            ids = ids.reshape([int(d) for d in order.group(1).split(',')])
            ids = ids.transpose([int(d) for d in order.group(2).split(',')]) if order.group(2) else ids
        ids, joined = ids.reshape([n for _, n in sizes]), re.findall(r"'(\w+)'", named.group(3))
        return ids[tuple(slice(None) if name in joined else 0 for name, _ in sizes)].flatten().tolist()
    return []


def group_axes(line):
    """Mesh axes along which the devices of the first group differ."""
    ids, axes, stride = first_group(line), [], 1
    for name, size in reversed(list(zip(PLAN['mesh']['axes'], PLAN['mesh']['shape']))):
        if len({i // stride % size for i in ids}) > 1:
            axes.insert(0, name)
        stride *= size
    return '+'.join(axes)


def read_collectives(folder):
    """Rows of kind, mesh axes and bytes of a device's operand, with how often a step has them: loops are counted."""
    bodies, entry, name = {}, None, None
    for line in dumped(folder, 'after_optimizations.txt').splitlines():
        if line and not line[0].isspace() and line.endswith('{') and '%' in line:
            name = first(r'%([\w.-]+)', line)
            bodies[name] = []
            entry = name if line.startswith('ENTRY') else entry
        elif name:
            bodies[name].append(line)
    rows, channels = {}, set()

    def is_new(line):
        """One that proceeds inside of other fusions stands in each of them, on one channel."""
        channel = first(r'channel_id=(\d+)', line)
        known = channel in channels
        channels.add(channel or len(channels))
        return not known

    def step(body, index):
        """What a loop adds to an element of its tuple; one where that is no constant of its body."""
        lines = '\n'.join(bodies.get(body, ()))
        made_by = dict(re.findall(r'%([\w.-]+) = \S+ ((?:add|copy|constant)\(.*?\))', lines))
        root = re.findall(r'%([\w.-]+)', first(r' ROOT .* tuple\((.*?)\)', lines))
        text = made_by.get(root[index] if index < len(root) else '', '')
        while text.startswith('copy'):
            text = made_by.get(first(r'%([\w.-]+)', text), '')
        return int(first(r'constant\((\d+)\)', made_by.get(first(r'add\(%[\w.-]+, %([\w.-]+)\)', text), ''), '1'))

    def trips(line):
        """A loop over layers or microbatches counts up to the constant of its condition; one over the pieces of a
        product by two, since it is unrolled."""
        condition = '\n'.join(bodies.get(first(r'condition=%([\w.-]+)', line), ()))
        end = max([int(n) for n in re.findall(r' constant\((\d+)\)', condition)] or [1])
        index = first(r'get-tuple-element\(.*\), index=(\d+)', condition)
        return -(-end // step(first(r'body=%([\w.-]+)', line), int(index))) if index else end

    def visit(name, times):
        for line in bodies.get(name, ()):
            loop = first(r' while\(.*body=%([\w.-]+)', line)
            called = loop or first(r' (?:call|async-start|fusion)\(.*(?:calls|to_apply)=%([\w.-]+)', line)
            if called:
                visit(called, times * (trips(line) if loop else 1))
            found, scatters = COLLECTIVE.search(line), name.startswith('all-reduce-scatter')
            if found and (scatters or is_new(line)):  # those that were combined are all on channel 1
                made, kind, started = found.groups()
                kind = 'reduce-scatter' if scatters else kind
                key = (kind.replace('-', '_'), group_axes(line),
                       operand_bytes(found.group(2), started, made, len(first_group(line))))
                rows[key] = rows.get(key, 0) + times

    visit(entry, 1)
    return [{'kind': kind, 'mesh_axis': axes, 'bytes': size, 'count': count}
            for (kind, axes, size), count in sorted(rows.items(), key=lambda row: -row[0][2] * row[1])]


# ---- the compiler in a process of its own, watched through what it dumps ----

ENVIRONMENT = {'TPU_SKIP_MDS_QUERY': '1', 'JAX_PLATFORMS': 'cpu', 'TPU_WORKER_HOSTNAMES': 'localhost',
               'ALLOW_MULTIPLE_LIBTPU_LOAD': '1'}


def start_compiler(folder, log):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.environ.update(ENVIRONMENT, XLA_FLAGS=f'--xla_dump_to={folder}')
        for stream in (1, 2):
            os.dup2(log, stream)
        lower_step(make_mesh()).compile()
        status = 0
    except BaseException as error:
        os.write(log, f'\n{type(error).__name__}: {error}\n'.encode())
    finally:
        os._exit(status)


def judge(folder, options):
    """Waits until the compiler has assigned its buffers, and as long again as its refusal takes (all of it, if it is to
    compile to the end)."""
    patience_s = 2.0
    log = os.open(os.path.join(folder, 'compiler.log'), os.O_RDWR | os.O_CREAT)
    began, assigned, ended = time.monotonic(), None, False
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    child = start_compiler(folder, log)
    try:
        while not ended:
            ended = os.waitpid(child, os.WNOHANG)[0] == child
            now = time.monotonic()
            assigned = assigned or (now if read_total(folder) else None)
            enough = assigned and now - assigned > patience_s and not options.whole
            if enough or now - began > options.time_limit:
                break
            time.sleep(0.1)
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    words = open(os.path.join(folder, 'compiler.log'), errors='replace').read()
    refusal = first(r'(RESOURCE_EXHAUSTED: [^\n]*)', words)
    total = read_total(folder)
    answer = {'peak_memory_bytes': total or None, 'limit_bytes': PLAN['limit_bytes'], 'fits': None, 'message': refusal,
              'seconds': round(time.monotonic() - began, 1)}
    if total:
        answer['fits'] = not refusal and total <= PLAN['limit_bytes']
        answer.update(read_allocations(folder), collectives=read_collectives(folder))
    elif not refusal:
        answer['message'] = 'the time limit was reached' if time.monotonic() - began > options.time_limit else words[-400:]
    answer['rematerialized'] = dumped(folder, 'after_optimizations.txt').count('.remat')
    return answer


def main():
    parser = argparse.ArgumentParser(
        description='Has XLA:TPU compile the plan, without a TPU, or runs it on the devices that are here; prints JSON.')
    parser.add_argument('--run', type=int, metavar='STEPS', help='run so many steps, after three, and time them')
    parser.add_argument('--whole', action='store_true', help='compile to the end, code generation included')
    parser.add_argument('--time-limit', type=float, default=600, metavar='S')
    parser.add_argument('--dump', metavar='DIR', help="keep the compiler's dumps there; of a run, its HLO and a profile")
    options = parser.parse_args()
    if options.run is not None and options.run < 1:
        parser.error('--run: at least 1 step is needed')
    if not options.run and PLAN['topology']['platform'] != 'tpu':
        parser.error(f"{PLAN['topology']['name']}: only a TPU's compiler can be had without the device; use --run STEPS "
                     "where it is")
    if options.run:
        os.makedirs(options.dump or '.', exist_ok=True)
        print(json.dumps(run_there(options), indent=2))
        return
    folder = options.dump or tempfile.mkdtemp(prefix='aot_')
    os.makedirs(folder, exist_ok=True)
    try:
        print(json.dumps(judge(folder, options), indent=2))
    finally:
        if not options.dump:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    main()
