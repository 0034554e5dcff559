#!/usr/bin/env python3
"""oracle.py FOLDER [OUT]: makes tests/data/xla_operations.csv, xla_axes.csv and xla_steps.csv from the dumps of XLA's SPMD
partitioner in FOLDER.

A dump is a JSON document with `cases`: operations by themselves (`primitives`) and steps of whole models (`forward`, `train`). What is kept of
a case: the question, the sharding that propagation chose, the collectives merged by kind, axis, dtype and bytes (kind/axis/dtype/bytes*count,
the largest first), and of steps XLA's own memory analysis. Left out: collectives of broadcast scalars, and operations that `partition` cannot
say. A `-` stands for collectives of which two versions of the partitioner think differently: groups that are part of a mesh axis, and results
that no mesh axes express.
"""
import collections, csv, json, os, sys

STEPS = {"forward": "forward", "grad": "gradient", "train_step": "train"}


def entry(axes):
    return "-" if axes is None else "".join(a[0] for a in axes) if isinstance(axes, list) else axes[0]


def spec(axes):
    return "[" + ",".join(entry(a) for a in axes) + "]"


def settled(case):
    return not any(":" in row["axis"] for row in case["collectives"]) and not any(":" in str(s) for s in case.get("output_specs", []))


def merged(case):
    if not settled(case):
        return "-"
    counts = collections.Counter()
    for row in case["collectives"]:
        if not row.get("uniform_operand"):
            axis = {"both": "data+model"}.get(row["axis"], row["axis"])
            counts[row["kind"], axis, row["dtype"], row["operand_bytes"]] += row["count"]
    largest = sorted(counts.items(), key=lambda c: (-c[0][3] * c[1], c[0]))
    return " ".join(f"{kind}/{axis}/{dtype}/{size}*{count}" for (kind, axis, dtype, size), count in largest)


def operations(cases, group):
    for c in cases:
        words = c["model"].split()
        known = words[0] == "reshard" or words[0] == "einsum" and "constraint" not in words
        if not c["id"].startswith(group + "/") or not known or not settled(c):
            continue
        wanted = "free" if c["output_constraint"] is None else spec(c["output_constraint"])
        mesh = "x".join(map(str, c["mesh"].values())) + ("" if list(c["mesh"]) == ["data", "model"] else ":" + ",".join(c["mesh"]))
        question = "".join(map(spec, c["operand_specs"])) + f">{wanted}/{mesh}"
        name = c["id"].split("/")[1]
        assert c["id"] == f"{group}/{name}/{question}" and len(set(c["operand_dtypes"])) == 1, c["id"]
        yield [f"{name}/{question}", words[1] if words[0] == "einsum" else "reshard", " ".join("x".join(map(str, s)) for s in c["operand_shapes"]),
               c["operand_dtypes"][0], spec(c["output_specs"][0]), merged(c)]


def steps(cases):
    for c in cases:
        if c["group"] not in ("forward", "train"):
            continue
        mesh, lengths, memory = c["mesh"], c["task_feature_lengths"], c["memory_analysis"]
        yield [c["id"], c["model"], f"local:{mesh['data'] * mesh['model']}", f"1,{mesh['model']}", c["rules"], c["dtype"], c["batch_size"],
               lengths.get("inputs"), lengths.get("targets"), c["num_microbatches"], c["optimizer"], c.get("optimizer_partitioning"),
               c["remat_policy"] or "none", STEPS[c["what"]], memory["argument_bytes"], memory["output_bytes"], memory["temp_bytes"], merged(c)]


def write(path, header, rows):
    with open(path, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(header.split(","))
        writer.writerows(rows)


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    folder, out = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "tests/data"
    cases = [c for name in sorted(os.listdir(folder)) if name.endswith(".json") for c in json.load(open(os.path.join(folder, name)))["cases"]]
    write(os.path.join(out, "xla_operations.csv"), "case,operation,shapes,dtype,result,collectives", operations(cases, "G0"))
    write(os.path.join(out, "xla_axes.csv"), "case,operation,shapes,dtype,result,collectives", operations(cases, "A3"))
    write(os.path.join(out, "xla_steps.csv"), "case,model,topology,model_parallel_submesh,logical_axis_rules,dtype,batch_size,inputs_length,targets_length,"
          "num_microbatches,optimizer,optimizer_partitioning,remat_policy,step,argument_bytes,output_bytes,temp_bytes,collectives", steps(cases))


main()
