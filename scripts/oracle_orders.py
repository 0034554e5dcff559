#!/usr/bin/env python3
"""oracle_orders.py MESHWRIGHT [FOLDER]: makes tests/data/xla_orders.csv: what XLA's SPMD partitioner makes of training steps whose
rules shard a dimension over mesh axes in another order than the mesh's, or two dimensions in orders that contradict each other; and
xla_order_operations.csv, the same of products by themselves: one whose rows go over axes in any order while its kernel goes over some
of them, and products drawn at random whose arrays name two axes in both orders.

Run by a Python that has jax==0.4.13 and jaxlib==0.4.13 (numpy<1.26). The step is the program of `export --format aot`, compiled
for CPU devices; collectives are read from the module that the partitioner leaves, merged by kind, axes, dtype and bytes.
"""
import collections, csv, glob, json, os, random, re, subprocess, sys, tempfile, types

MODEL = ("decoder_only:emb_dim=256,num_heads=8,head_dim=64,mlp_dim=1024,num_layers=1,vocab_size=4096,mlp_activations=gelu+linear,"
         "logits_via_embedding=0")
LENGTH, ROWS = 24, 32
T5X, NAMED = ["data", "model"], ["data", "fsdp", "tensor"]
HEADS = {"heads": "model", "joined_kv": "model", "vocab": "model"}
CASES = [  # rules and meshes
    ("batch", {"batch": ["model", "data"]}, T5X, [(2, 4), (4, 2)]),
    ("mlp", {"batch": "data", "mlp": ["model", "data"], **HEADS}, T5X, [(2, 4), (4, 2)]),
    ("mlp and vocab", {"batch": "data", "mlp": ["tensor", "fsdp"], "vocab": ["tensor", "fsdp"], "heads": "tensor", "joined_kv": "tensor"}, NAMED,
     [(2, 2, 2)]),
    ("batch", {"batch": ["tensor", "data"], "embed": "fsdp", "mlp": "fsdp"}, NAMED, [(2, 2, 2)])]
DRAWN_SEED, DRAWN_COUNT = 13, 30  # of rules that contradict each other
DRAWN = [(T5X, (2, 4)), (T5X, (4, 2)), (T5X, (2, 2)), (NAMED, (2, 2, 2)), (NAMED, (2, 2, 2))]
BYTES = {"f32": 4, "bf16": 2, "s32": 4, "u32": 4, "pred": 1}
DTYPES = {"f32": "float32", "bf16": "bfloat16", "s32": "int32", "u32": "uint32", "pred": "bool"}
KINDS = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"


def rules_of(given):
    unsharded = [["kv", None], ["length", None], ["relpos_buckets", None], ["layers", None], ["stack", None]]
    names = ["batch", "vocab", "embed", "mlp", "heads", "joined_kv"]
    return [[name, given.get(name)] for name in names] + unsharded


def drawn_cases():
    """Rules of which some name two axes in one order, and some in the other."""
    draw, cases = random.Random(DRAWN_SEED), []
    while len(cases) < DRAWN_COUNT:
        names, sizes = draw.choice(DRAWN)
        first, second = draw.sample(names, 2)
        pairs = [[first, second], [second, first]]
        given = {name: draw.choice([None] + names + 2 * pairs) for name in ("batch", "mlp", "heads")}
        given.update({name: draw.choice([None, None] + names) for name in ("vocab", "embed")})
        given["joined_kv"] = given["heads"]
        if all(pair in given.values() for pair in pairs):
            cases.append((f"contrary {len(cases)}", given, names, [sizes]))
    return cases


EQUATIONS = {"ble,ef->blf": ((32, 24, 256), (256, 1024)), "blf,fe->ble": ((32, 24, 1024), (1024, 256)), "ble,blf->ef": ((32, 24, 256), (32, 24, 1024)),
             "ble,ehd->blhd": ((32, 24, 256), (256, 16, 64)), "blhd,hde->ble": ((32, 24, 16, 64), (16, 64, 256)),
             "bqhd,bkhd->bhqk": ((32, 24, 16, 64), (32, 24, 16, 64)), "bhqk,bkhd->bqhd": ((32, 16, 24, 24), (32, 24, 16, 64))}
ORDERS = {((2, 2), (2, 4), (4, 2)): (["md", "dm"], ["-,d", "-,m", "d,-", "m,-"]),
          ((2, 2, 2), (2, 4, 2)): (["td", "dt", "fd", "tfd", "dtf", "ft"], ["-,d", "-,t", "-,f", "d,-", "t,f", "-,df", "-,tf"])}
DRAWN_OPERATIONS = 250


def product_cases():
    for meshes, (rows, kernels) in ORDERS.items():
        for sizes in meshes:
            for row in rows:
                for kernel in kernels:
                    yield "ble,ef->blf", sizes, [f"{row},-,-", kernel], f"{row},-,-"


def drawn_spec(draw, rank, pair, names):
    spec, used = ["-"] * rank, ""
    for _ in range(2):
        axes, at = draw.choice([*pair, *names]), draw.choice([i for i in range(rank) if spec[i] == "-"])
        if not set(axes) & set(used) and draw.random() > 0.2:
            spec[at], used = axes, used + axes
    return ",".join(spec)


def drawn_products():
    draw, seen = random.Random(DRAWN_SEED), set()
    while len(seen) < DRAWN_OPERATIONS:
        equation, sizes = draw.choice(list(EQUATIONS)), draw.choice([(2, 4), (4, 2), (2, 2), (2, 2, 2), (2, 4, 2)])
        names = "dm" if len(sizes) == 2 else "dft"
        one, other = draw.sample(names, 2)
        pair = [one + other, other + one]
        inputs, out = equation.split("->")
        specs = [drawn_spec(draw, len(array), pair, names) for array in [*inputs.split(","), out]]
        case = (equation, sizes, tuple(specs))
        if case in seen or not all(any(order in spec for spec in specs) for order in pair):
            continue
        seen.add(case)
        yield equation, sizes, specs[:2], specs[2]


def operation_row(equation, sizes, specs, wanted, folder):
    """A row as in tests/data/xla_axes.csv."""
    import jax, jax.numpy as jnp, numpy as np
    names = T5X if len(sizes) == 2 else NAMED
    of = {name[0]: name for name in names}
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:int(np.prod(sizes))]).reshape(sizes), tuple(names))
    sharding = lambda spec: jax.sharding.NamedSharding(
        mesh, jax.sharding.PartitionSpec(*[None if axes == "-" else tuple(of[a] for a in axes) for axes in spec.split(",")]))
    arrays = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in EQUATIONS[equation]]
    for old in glob.glob(os.path.join(folder, "*")):
        os.remove(old)
    jax.jit(lambda x, y: jnp.einsum(equation, x, y), in_shardings=tuple(map(sharding, specs)), out_shardings=sharding(wanted)).lower(*arrays).compile()
    text = open(sorted(glob.glob(os.path.join(folder, "*after_spmd-partitioning*.txt")))[-1]).read()
    mesh_text = "x".join(map(str, sizes)) + ("" if names is T5X else ":" + ",".join(names))
    question = "".join(f"[{spec}]" for spec in specs) + f">[{wanted}]/{mesh_text}"
    shapes = " ".join("x".join(map(str, shape)) for shape in EQUATIONS[equation])
    return [f"order_{re.sub('[,>-]+', '_', equation)}/{question}", equation, shapes, "bfloat16", f"[{wanted}]", collectives_of(text, names, sizes)]


def groups_of(line, kind, count):
    """Devices of a group: those of one group tell the axes."""
    if kind == "collective-permute":
        return [[int(a), int(b)] for a, b in re.findall(r"\{(\d+),(\d+)\}", line[line.index("source_target_pairs"):].split("}}")[0] + "}")]
    listed = re.search(r"replica_groups=(\{\{.*?\}\})", line)
    by_device = kind == "all-to-all" or "use_global_device_ids=true" in line
    if not listed or not by_device:
        return [list(range(count))]
    return [[int(d) for d in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed[1])]


def axes_of(groups, names, sizes):
    import numpy as np
    place = {d: np.unravel_index(d, sizes) for group in groups for d in group}
    return "+".join(n for i, n in enumerate(names) if any(len({place[d][i] for d in group}) > 1 for group in groups))


def collectives_of(text, names, sizes):
    import numpy as np
    shapes = {m[1]: (m[2], m[3]) for m in re.finditer(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\w+)\[([\d,]*)\]", text, re.M)}
    counts = collections.Counter()
    for line in text.splitlines():
        found = re.search(rf" ({KINDS})\(([^)]*)\)", line)
        if not found:
            continue
        operands = [shapes[o] for o in re.findall(r"%?([\w.\-]+)", found[2]) if o in shapes]
        size = sum(BYTES[d] * int(np.prod([int(n) for n in s.split(",") if n])) for d, s in operands)
        axes = axes_of(groups_of(line, found[1], int(np.prod(sizes))), names, sizes)
        counts[found[1].replace("-", "_"), axes, DTYPES[operands[0][0]], size] += 1
    largest = sorted(counts.items(), key=lambda c: (-c[0][3] * c[1], c[0]))
    return " ".join(f"{kind}/{axes}/{dtype}/{size}*{count}" for (kind, axes, dtype, size), count in largest)


def program(meshwright, rules, model=MODEL, lengths=str(LENGTH)):
    question = [meshwright, "export", "--format", "aot", "--model", model, "--topology", "v4:2x2x2", "--model-parallel-submesh", "2,2,1,1",
                "--task-feature-lengths", lengths, "--batch-size", str(ROWS), "--optimizer", "adamw"]
    text = subprocess.run(question, check=True, capture_output=True, text=True).stdout
    module = types.ModuleType("step")
    exec(compile(text.split("if __name__ ==")[0], "step", "exec"), module.__dict__)
    module.PLAN["logical_axis_rules"] = rules
    return module


def partitioned(module, names, sizes, folder):
    import jax, numpy as np
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:int(np.prod(sizes))]).reshape(sizes), tuple(names))
    given = module.arguments(mesh)
    shardings = jax.tree_util.tree_map(lambda x: x.sharding, given)
    bare = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), given)
    for old in glob.glob(os.path.join(folder, "*")):
        os.remove(old)
    jax.jit(module.build_step(mesh), in_shardings=shardings, out_shardings=(shardings[0], None)).lower(*bare).compile()
    return open(sorted(glob.glob(os.path.join(folder, "*after_spmd-partitioning*.txt")))[-1]).read()


def write(name, header, rows):
    with open(os.path.join(sys.argv[2] if len(sys.argv) > 2 else "tests/data", name), "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([header.split(",")] + rows)


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    folder = tempfile.mkdtemp()
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=16 --xla_dump_to={folder} --xla_dump_hlo_pass_re=spmd"
    import jax, numpy as np
    jax.tree = types.SimpleNamespace(map=jax.tree_util.tree_map)
    rows = []
    for name, given, names, meshes in CASES + drawn_cases():
        for sizes in meshes:
            rules = rules_of(given)
            text = partitioned(program(sys.argv[1], rules), names, sizes, folder)
            shape = ",".join(f"{n}={s}" for n, s in zip(names, sizes))
            rows.append([f"O/{name}/{'x'.join(map(str, sizes))}", MODEL, f"local:{np.prod(sizes)}", shape, json.dumps(rules), "bfloat16", ROWS, LENGTH, 1,
                         "adamw", "none", "train", collectives_of(text, names, sizes)])
    header = "case,model,topology,ici_mesh,logical_axis_rules,dtype,batch_size,targets_length,num_microbatches,optimizer,remat_policy,step,collectives"
    write("xla_orders.csv", header, rows)
    write("xla_order_operations.csv", "case,operation,shapes,dtype,result,collectives",
          [operation_row(*case, folder) for case in [*product_cases(), *drawn_products()]])


if __name__ == "__main__":
    main()
