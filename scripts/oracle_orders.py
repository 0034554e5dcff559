#!/usr/bin/env python3
"""oracle_orders.py MESHWRIGHT [OUT]: makes tests/data/xla_orders.csv: what XLA's SPMD partitioner makes of training steps whose
rules shard a dimension over mesh axes in another order than the mesh's, or two dimensions in orders that contradict each other.

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


def program(meshwright, rules):
    question = [meshwright, "export", "--format", "aot", "--model", MODEL, "--topology", "v4:2x2x2", "--model-parallel-submesh", "2,2,1,1",
                "--task-feature-lengths", str(LENGTH), "--batch-size", str(ROWS), "--optimizer", "adamw"]
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


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    folder = tempfile.mkdtemp()
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 --xla_dump_to={folder} --xla_dump_hlo_pass_re=spmd"
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
    with open(sys.argv[2] if len(sys.argv) > 2 else "tests/data/xla_orders.csv", "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([header.split(",")] + rows)


main()
