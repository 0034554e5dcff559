#!/usr/bin/env python3
"""draw_operations.py SEED COUNT: draws contractions and reshardings, asks XLA's SPMD partitioner about them, and prints rows as in
tests/data/xla_operations.csv. Needs jax and jaxlib 0.4.13 (numpy 1.25); nothing else here does.

Left out: what depends on the partitioner's version, as groups that are part of a mesh axis do (see oracle.py)."""
import collections, csv, glob, math, os, random, re, shutil, sys, tempfile

DUMP = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=32 --xla_dump_to={DUMP} --xla_dump_hlo_pass_re=spmd-partitioning"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MESHES = [(2, 2), (2, 2), (2, 4), (4, 2), (4, 4), (2, 8), (8, 2), (4, 1), (1, 4)]
OPERATIONS = ["ble,ef->blf", "ble,blf->ef", "ble,blv->ve", "ble,ehd->blhd", "ble,ve->blv", "blf,ef->ble", "blf,fe->ble", "blhd,ble->ehd",
              "blhd,hde->ble", "blv,ve->ble", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "ab->ab", "abc->abc"]
COLLECTIVE = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute)\(%?([\w.-]+)\)(.*)")
VALUE = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = \w+\[([\d,]*)\]")
NAMES = {(): "none", ("data",): "data", ("model",): "model", ("data", "model"): "data+model"}
BYTES = 2  # bfloat16


def draw_spec(draw, rank, joint):
    spec = [()] * rank
    if draw.random() < joint:
        spec[draw.randrange(rank)] = ("data", "model")
        return spec
    for axis in ("data", "model"):
        if draw.random() < 0.62:
            spec[draw.choice([i for i in range(rank) if not spec[i]])] = (axis,)
    return spec


def draw_case(draw):
    operation, mesh, joint = draw.choice(OPERATIONS), draw.choice(MESHES), draw.choice([0, 0, 0.15])
    sizes = collections.defaultdict(lambda: draw.choice([16, 32, 64, 128, 256]))
    inputs, output = operation.split("->")
    operands = inputs.split(",")
    wanted = draw_spec(draw, len(output), joint) if len(operands) == 1 or draw.random() < 0.65 else None
    return operation, mesh, [[sizes[c] for c in o] for o in operands], [draw_spec(draw, len(o), joint) for o in operands], wanted


def axes_of(line, mesh):
    """The mesh axes along which a group's devices differ; None if a group is a part of them."""
    pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
    text = pairs.group(1) if pairs else re.search(r"replica_groups=\{(.*?)\}\}", line).group(1)
    groups = [[int(d) for d in g.split(",")] for g in re.findall(r"[\d,]+", text.replace("},{", "} {"))]
    if len(groups[0]) == 1:  # no groups: all devices
        groups = [list(range(mesh[0] * mesh[1]))]
    data = any(len({d // mesh[1] for d in g}) > 1 for g in groups)
    model = any(len({d % mesh[1] for d in g}) > 1 for g in groups)
    whole = (mesh[0] if data else 1) * (mesh[1] if model else 1) == len(groups[0])
    return tuple(a for a, has in (("data", data), ("model", model)) if has) if pairs or whole else None


def collectives(text, mesh):
    shapes, counts = {}, collections.Counter()
    for line in text.splitlines():
        value, found = VALUE.match(line), COLLECTIVE.search(line)
        if value:
            shapes[value.group(1)] = [int(d) for d in value.group(2).split(",") if d]
        if not found:
            continue
        axes = axes_of(line, mesh)
        if axes is None:
            return None
        counts[found.group(1).replace("-", "_"), NAMES[axes], math.prod(shapes[found.group(2)]) * BYTES] += 1
    largest = sorted(counts.items(), key=lambda c: (-c[0][2] * c[1], c[0]))
    return " ".join(f"{kind}/{axis}/bfloat16/{size}*{count}" for (kind, axis, size), count in largest)


def text_of(spec):
    return "[" + ",".join("".join(a[0] for a in axes) or "-" for axes in spec) + "]"


def ask(operation, sizes, shapes, specs, wanted):
    mesh = Mesh(np.array(jax.devices()[:sizes[0] * sizes[1]]).reshape(sizes), ("data", "model"))
    sharding = lambda spec: NamedSharding(mesh, PartitionSpec(*[axes or None for axes in spec]))
    one = len(shapes) == 1
    run = (lambda x: jax.lax.with_sharding_constraint(x, sharding(wanted))) if one else (lambda x, y: jnp.einsum(operation, x, y))
    given = {} if wanted is None else {"out_shardings": sharding(wanted)}
    shutil.rmtree(DUMP, ignore_errors=True)
    arguments = [jax.ShapeDtypeStruct(s, jnp.bfloat16) for s in shapes]
    compiled = jax.jit(run, in_shardings=tuple(map(sharding, specs)), **given).lower(*arguments).compile()
    with open(glob.glob(DUMP + "/*after_spmd-partitioning*")[0]) as dump:
        return compiled, collectives(dump.read(), sizes)


def spec_of(compiled, mesh_sizes, rank):
    """The sharding that XLA chose, if mesh axes express it."""
    tiles = compiled.output_shardings.devices_indices_map(tuple([32 * 32] * rank))
    devices, spec = jax.devices()[:mesh_sizes[0] * mesh_sizes[1]], []
    starts = np.array([[s.start or 0 for s in tiles[d]] for d in devices]).reshape(*mesh_sizes, rank)
    for d in range(rank):
        axes = [a for i, a in enumerate(("data", "model")) if (starts[..., d] != np.take(starts[..., d], [0], axis=i)).any()]
        ordered = len(axes) < 2 or (np.diff(starts[..., d].ravel()) > 0).all()
        spec.append(tuple(axes) if ordered else None)
    return None if None in spec else spec


def main():
    draw, seen, writer = random.Random(int(sys.argv[1])), set(), csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow("case,operation,shapes,dtype,result,collectives".split(","))
    while len(seen) < int(sys.argv[2]):
        operation, mesh, shapes, specs, wanted = case = draw_case(draw)
        even = all(s % math.prod({"data": mesh[0], "model": mesh[1]}[a] for a in axes) == 0
                   for shape, spec in zip(shapes, specs) for s, axes in zip(shape, spec))
        if not even or str(case) in seen or (len(shapes) == 1 and specs[0] == wanted):
            continue
        try:
            compiled, moved = ask(*case)
        except ValueError:  # the result does not divide
            continue
        result = wanted or spec_of(compiled, mesh, len(operation.split("->")[1]))
        if moved is None or result is None:
            continue
        seen.add(str(case))
        question = "".join(map(text_of, specs)) + ">" + ("free" if wanted is None else text_of(wanted)) + f"/{mesh[0]}x{mesh[1]}"
        writer.writerow([f"drawn_{len(seen)}/{question}", operation if len(shapes) > 1 else "reshard", " ".join("x".join(map(str, s)) for s in shapes),
                         "bfloat16", text_of(result), moved])


main()
