#!/usr/bin/env python3
"""oracle_steps.py MESHWRIGHT SEED COUNT [OUT]: makes tests/data/xla_drawn_steps.csv: what XLA's SPMD partitioner makes of training steps
drawn at random, on meshes of two, three and four axes under rules as users write them: the batch over some axes, what is tensor parallel
over the others, parameters over axes of the batch (ZeRO-3) or not.

Run by a Python that has jax==0.4.13 and jaxlib==0.4.13 (numpy<1.26). As in oracle_orders.py the step is the program of `export --format
aot`, compiled for CPU devices. Left out are collectives of what is made of constants and iotas alone: XLA shares one such array between
operations that want it sharded otherwise, where compilers for TPUs and GPUs make it anew.
"""
import csv, json, os, random, re, sys, tempfile, types

import oracle_orders

MESHES = [(["data", "model"], [(2, 2), (2, 4), (4, 2), (4, 4)]), (["data", "fsdp", "tensor"], [(2, 2, 2), (2, 4, 2), (4, 2, 2), (2, 2, 4)]),
          (["stage", "data", "fsdp", "tensor"], [(2, 2, 2, 2)])]
MODELS = ["decoder_only:emb_dim=256,num_heads=8,head_dim=64,mlp_dim=1024,num_layers=2,vocab_size=4096,mlp_activations=gelu+linear,"
          "logits_via_embedding=0",
          "decoder_only:emb_dim=512,num_heads=16,head_dim=32,mlp_dim=2048,num_layers=1,vocab_size=8192,mlp_activations=relu,"
          "logits_via_embedding=1",
          "encoder_decoder:emb_dim=256,num_heads=16,head_dim=16,mlp_dim=512,num_encoder_layers=1,num_decoder_layers=1,vocab_size=2048,"
          "mlp_activations=gelu+linear,logits_via_embedding=0"]
HEADER = ("case,model,topology,ici_mesh,logical_axis_rules,dtype,batch_size,inputs_length,targets_length,num_microbatches,optimizer,"
          "remat_policy,step,collectives").split(",")


def drawn_rules(draw, names):
    rule = lambda axes: None if not axes else axes[0] if len(axes) == 1 else axes
    shuffled, count = draw.sample(names, len(names)), draw.randint(0, len(names))
    batch, tensor = sorted(shuffled[:count], key=names.index), sorted(shuffled[count:], key=names.index)
    given = {"batch": rule(batch), "mlp": rule(tensor if draw.random() < 0.7 else tensor[:1]),
             "heads": rule(tensor if draw.random() < 0.6 else tensor[-1:])}
    given["joined_kv"] = given["heads"]
    given["vocab"] = rule(tensor[:1]) if draw.random() < 0.7 else None
    given["embed"] = draw.choice([None, None, rule(batch), rule(batch[:1]), rule(batch[-1:])])
    return oracle_orders.rules_of(given)


def computed(text):
    """The module without collectives whose operands come of constants and iotas alone."""
    made = {}
    for line in text.splitlines():
        found = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = (?:\([^)]*\)|[\w\[\],{}]+) ([\w\-]+)\((.*?)\)", line)
        if found:
            made[found[1]] = (found[2], re.findall(r"%?([A-Za-z_][\w.\-]*)", found[3]) if found[2] != "constant" else [])
    known = {}

    def is_generated(name):
        if name not in known:
            kind, operands = made[name]
            operands = [o for o in operands if o in made]
            known[name] = False  # of a loop that comes back here
            known[name] = kind in ("constant", "iota", "partition-id") or (
                kind not in ("parameter", "while", "call", "get-tuple-element") and bool(operands) and all(map(is_generated, operands)))
        return known[name]

    def stays(line):
        found = re.search(rf" ({oracle_orders.KINDS})\(([^)]*)\)", line)
        return not found or not all(is_generated(o) for o in re.findall(r"%?([\w.\-]+)", found[2]) if o in made)

    return "\n".join(filter(stays, text.splitlines()))


def main():
    if not 4 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    folder, rows, draw = tempfile.mkdtemp(), [], random.Random(int(sys.argv[2]))
    os.environ["XLA_FLAGS"] = (f"--xla_force_host_platform_device_count=16 --xla_dump_to={folder} --xla_dump_hlo_pass_re=spmd "
                               "--xla_backend_optimization_level=0")
    sys.setrecursionlimit(100000)
    import jax, numpy as np
    jax.tree = types.SimpleNamespace(map=jax.tree_util.tree_map)
    while len(rows) < int(sys.argv[3]):
        names, sizes = draw.choice(MESHES)
        size, model, rules = draw.choice(sizes), draw.choice(MODELS), drawn_rules(draw, names)
        lengths = (32, 24) if model.startswith("encoder") else ("", 24)
        module = oracle_orders.program(sys.argv[1], rules, model, ",".join(str(n) for n in lengths if n))
        try:
            text = computed(oracle_orders.partitioned(module, names, size, folder))
        except ValueError:  # JAX refuses axes that do not divide a dimension
            continue
        shape = ",".join(f"{n}={s}" for n, s in zip(names, size))
        rows.append([f"D/{sys.argv[2]}.{len(rows)}/{'x'.join(map(str, size))}", model, f"local:{np.prod(size)}", shape, json.dumps(rules), "bfloat16",
                     oracle_orders.ROWS, *lengths, 1, "adamw", "none", "train", oracle_orders.collectives_of(text, names, size)])
    with open(sys.argv[4] if len(sys.argv) > 4 else "tests/data/xla_drawn_steps.csv", "w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([HEADER] + rows)


if __name__ == "__main__":
    main()
