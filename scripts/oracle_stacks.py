#!/usr/bin/env python3
"""oracle_stacks.py MESHWRIGHT [OUT]: appends to tests/data/xla_stacks.csv what XLA's SPMD partitioner makes of scanned training
steps whose rules shard weights over data: what the backward pass takes of stacks of residuals is sharded as the stack, or not.

Run by a Python that has jax and jaxlib 0.4.13 (numpy<1.26), and by one that has 0.4.38: propagation changed in 0.4.27, and the
column compiler says which it was. The step is the program of `export --format aot`, compiled for CPU devices.
"""
import csv, glob, os, re, subprocess, sys, tempfile, types

MODEL = ("scalable_encoder_decoder:emb_dim=256,num_heads=8,head_dim=64,mlp_dim=1024,num_encoder_layers=3,num_decoder_layers=2,"
         "vocab_size=4096,mlp_activations=gelu+linear,logits_via_embedding=0")
CASES = [(rules, tile, remat) for rules in ("zero3", "standard:1,2") for tile in (("v4-8", "1,1,1,1"), ("v4-16", "2,1,1,1"))
         for remat in ("none", "minimal")] + [("standard:2,2", ("v4-8", "1,1,1,1"), "none")]
DTYPES = {"f32": "float32", "bf16": "bfloat16", "s32": "int32"}
HEADER = ("case,model,topology,model_parallel_submesh,logical_axis_rules,dtype,batch_size,inputs_length,targets_length,num_microbatches,"
          "optimizer,remat_policy,compiler,step,collectives").split(",")


def program(meshwright, row):
    plan = [word for name in ("model", "topology", "model_parallel_submesh", "logical_axis_rules", "batch_size", "optimizer", "remat_policy")
            for word in ("--" + name.replace("_", "-"), str(row[name]))]
    lengths = f"{row['inputs_length']},{row['targets_length']}"
    text = subprocess.run([meshwright, "export", "--format", "aot", *plan, "--task-feature-lengths", lengths], check=True, capture_output=True,
                          text=True).stdout
    module = types.ModuleType("step")
    exec(compile(text.split("if __name__ ==")[0], "step", "exec"), module.__dict__)
    return module


def partitioned(module, folder):
    import jax, numpy as np
    shape, names = module.PLAN["mesh"]["shape"], module.PLAN["mesh"]["axes"]
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:int(np.prod(shape))]).reshape(shape), tuple(names))
    given = module.arguments(mesh)
    shardings = jax.tree_util.tree_map(lambda x: x.sharding, given)
    for old in glob.glob(os.path.join(folder, "*")):
        os.remove(old)
    jax.jit(module.build_step(mesh), in_shardings=shardings, out_shardings=(shardings[0], None)).lower(*given).compile()
    return open(sorted(glob.glob(os.path.join(folder, "*jit_step*after_spmd-partitioning*.txt")))[-1]).read()


def collectives_of(module, text):
    """With loops counted, as the program reads what the TPU compiler leaves; there names have a % before them."""
    text = re.sub(r"^(ENTRY )?(?!ENTRY )([A-Za-z_][\w.-]*) (.*\{|\{)$", r"\1%\2 \3", text, flags=re.M)
    text = re.sub(r"(condition|body|to_apply|calls)=([A-Za-z_])", r"\1=%\2", text)
    module.dumped, rows, pattern = lambda folder, name: text, [], module.COLLECTIVE.pattern
    for short, dtype in DTYPES.items():
        module.COLLECTIVE = re.compile(pattern.replace(" = (", rf" = (\(?{short}\["))
        rows += [(r["kind"], r["mesh_axis"], dtype, r["bytes"], r["count"]) for r in module.read_collectives("")]
    whole = "+".join(n for n, size in zip(module.PLAN["mesh"]["axes"], module.PLAN["mesh"]["shape"]) if size > 1)
    rows.sort(key=lambda r: (-r[3] * r[4], r))
    return " ".join(f"{kind}/{axes or whole}/{dtype}/{size}*{count}" for kind, axes, dtype, size, count in rows)


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    folder, out = tempfile.mkdtemp(), sys.argv[2] if len(sys.argv) > 2 else "tests/data/xla_stacks.csv"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 --xla_dump_to={folder} --xla_dump_hlo_pass_re=spmd"
    import jax
    if not hasattr(jax, "tree"):
        jax.tree = types.SimpleNamespace(map=jax.tree_util.tree_map)
    version = tuple(int(n) for n in jax.lib.__version__.split("."))
    compiler, fresh = "2024-05" if version >= (0, 4, 27) else "2023-07", not os.path.exists(out)
    with open(out, "a", newline="") as file:
        writer = csv.DictWriter(file, HEADER, lineterminator="\n")
        if fresh:
            writer.writeheader()
        for rules, (topology, tile), remat in CASES:
            row = dict(zip(HEADER, [f"K/{compiler}/{rules}/{topology}/{tile}/{remat}", MODEL, topology, tile, rules, "bfloat16", 32, 48, 24, 1,
                                    "adamw", remat, compiler, "train", ""]))
            module = program(sys.argv[1], row)
            writer.writerow(dict(row, collectives=collectives_of(module, partitioned(module, folder))))
            file.flush()


main()
