#!/usr/bin/env python3
"""oracle_aot.py COUNT OUT.csv [--seed N] [--python PATH] [--only scanned|unrolled] [--generations v4,v5e]
[--libtpu VERSION] [--program build/meshwright]: draws plans, has the XLA:TPU compiler judge each without a TPU, and appends its
answers to OUT.csv, in the columns of tests/data/compiled_memory.csv, and what was predicted before it was asked.

A plan is drawn near its limit and far from it: the batch is chosen so that the prediction is between 35 and 115 % of what the device
has. PATH is a Python with jax[tpu] (default: what `make aot-env` made).
"""
import argparse, csv, json, os, random, subprocess, tempfile

COLUMNS = ("id,model,topology,model_parallel_submesh,num_partitions,logical_axis_rules,inputs_length,targets_length,batch_size,"
           "num_microbatches,optimizer,remat_policy,dtype,software,memory_kind,measured_peak_memory_bytes,measured_oom,argument_bytes,"
           "output_bytes,rematerialized,libtpu,blind_peak_memory_bytes").split(",")
SLICES = {"v2": ("v2-8", "v2-32"), "v3": ("v3-8", "v3-32"), "v4": ("v4-16", "v4-64"), "v5e": ("v5e-16", "v5e-64"),
          "v5p": ("v5p-16", "v5p-64"), "v6e": ("v6e-16", "v6e-64"), "tpu7x": ("tpu7x:2x2x2", "tpu7x:2x2x4")}
SIZES = {"v2": ("small", "base"), "v3": ("small", "base", "large"), "v5e": ("base", "large", "xl")}
RULES = ("standard:1,1", "standard:1,1", "standard:2,1", "standard:1,2", "standard:2,2", "zero3", "megatron", "data_only")
LENGTHS = ((512, 114), (512, 512), (1024, 256), (256, 64))
MOST_ROWS_A_DEVICE = 4096


def draw(rng, only, generations):
    chip = rng.choice(generations)
    scanned = only == "scanned" or (only is None and rng.random() < 0.7)
    if scanned:
        model, remat = "scalable_t5_1_1_" + rng.choice(SIZES.get(chip, ("base", "large", "xl"))), rng.choice(("none", "minimal", "full"))
    else:
        model, remat = rng.choice(("t5_1_1_small", "t5_1_1_base", "decoder_only_base")), "none"
    inputs, targets = rng.choice(LENGTHS)
    rules = rng.choice(RULES)
    whole = rules in ("zero3", "data_only")
    return {"model": model, "topology": rng.choice(SLICES[chip]), "logical_axis_rules": rules,
            "model_parallel_submesh": "1,1,1,1" if whole else rng.choice(("1,1,1,1", "2,1,1,1", "2,2,1,1")),
            "inputs_length": "" if model.startswith("decoder") else inputs, "targets_length": targets,
            "num_microbatches": rng.choice((1, 1, 1, 2, 4)), "optimizer": rng.choice(("adafactor", "adafactor", "adamw")),
            "remat_policy": remat, "dtype": "bfloat16", "software": "t5x", "memory_kind": "compiled"}


def document(row):
    lengths = {name: int(row[name + "_length"]) for name in ("inputs", "targets") if row[name + "_length"] != ""}
    keys = ("model", "topology", "logical_axis_rules", "batch_size", "num_microbatches", "optimizer", "remat_policy", "dtype")
    plan = {key: row[key] for key in keys}
    plan["model_parallel_submesh"] = [int(n) for n in row["model_parallel_submesh"].split(",")]
    return json.dumps(dict(plan, task_feature_lengths=lengths))


def ask(program, command, row, folder, *more):
    path = os.path.join(folder, "plan.json")
    with open(path, "w") as f:
        f.write(document(row))
    done = subprocess.run([program, command, path, "--json", *more], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode in (0, 4) and done.stdout else None


def choose_batch(program, row, rng, folder):
    """The largest power of two of the least batch that stays under a share of the device's memory; None: no such plan."""
    aim, step, best = rng.uniform(0.35, 1.15), None, None
    row["batch_size"] = 4096 * row["num_microbatches"]
    first = ask(program, "predict", row, folder)
    if not first:
        return None
    step = first["mesh"]["data"] * row["num_microbatches"]
    size = step
    while size <= MOST_ROWS_A_DEVICE * step:
        row["batch_size"] = size
        memory = (ask(program, "predict", row, folder) or {}).get("memory")
        if not memory or memory["peak_bytes"] > aim * memory["capacity_bytes"]:
            break
        best, size = size, 2 * size
    return best and best + step * rng.randrange(0, best // (2 * step) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--python")
    parser.add_argument("--only", choices=("scanned", "unrolled"))
    parser.add_argument("--generations", default=",".join(sorted(SLICES)))
    parser.add_argument("--libtpu", default="0.0.42.1", help="the version that PATH has")
    parser.add_argument("--program", default="build/meshwright")
    options = parser.parse_args()
    rng, number, found = random.Random(options.seed), 0, 0
    more = ["--python", options.python] if options.python else []
    fresh = not os.path.exists(options.out)
    with tempfile.TemporaryDirectory() as folder, open(options.out, "a", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, lineterminator="\n", extrasaction="ignore")
        if fresh:
            writer.writeheader()
        while found < options.count:
            row, number = draw(rng, options.only, options.generations.split(",")), number + 1
            row["batch_size"] = choose_batch(options.program, row, rng, folder)
            answer = row["batch_size"] and ask(options.program, "verify", row, folder, *more)
            if not answer:
                continue
            compiled = answer["compiled"]
            row.update(id=f"drawn-{options.seed}-{number}", measured_peak_memory_bytes=compiled["peak_memory_bytes"],
                       measured_oom=int(not compiled["fits"]), argument_bytes=compiled["argument_bytes"],
                       output_bytes=compiled["output_bytes"], rematerialized=compiled["rematerialized_count"],
                       libtpu=options.libtpu,
                       blind_peak_memory_bytes=round(compiled["peak_memory_bytes"] * (1 + answer["error_frac"])))
            writer.writerow(row)
            f.flush()
            found += 1
            print(f"{row['id']} {row['model']} {row['topology']} {row['remat_policy']}: predicted "
                  f"{100 * answer['error_frac']:+.1f} %", flush=True)


main()
