"""confidence.py PROGRAM [--check]: how far predictions are off on the tables of measurements in tests/data/measured, by
software and platform, as sim/confidence.csv has it: mean and deviation of log(measured / predicted); of memory that
nobody measured, where it is known what ran and what did not fit, the deviation under which a verdict less or more would
be wrong than was. Writes that file;
--check only says whether it is what the program's predictions give, and how often measurements of every second row lie
within the 90 % intervals of the others."""
import collections
import csv
import glob
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile

COLUMNS = ["platform", "software", "chips", "quantity", "rows", "mean_log", "deviation_log", "tables"]
OUT = "sim/confidence.csv"
WITHIN = 1.6449


def chip(topology):
    return re.split(r"[:@]", topology)[0] if not re.match(r"v\d+[a-z]*-\d", topology) else topology.split("-")[0]


def platform(topology):
    return "tpu" if re.match(r"v\d", topology) and not topology.startswith("v100") else "gpu"


def number(cell):
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if value > 0 and math.isfinite(value) else None


def measured_step_s(row):
    """None of doubtful rows: C, or what ran was another model than the row's."""
    if row.get("quality") in ("C", "other_model"):
        return None
    step = number(row.get("measured_step_s"))
    tokens = number(row.get("measured_tokens_per_s"))
    if step is None and tokens is not None:
        step = float(row["batch_size"]) * float(row["targets_length"]) / tokens
    return step


def is_pipelined(row):
    return (number(row.get("pipeline_stages")) or 1) > 1


def predictions(program, table):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.csv")
        subprocess.run([program, "sweep", table, "--out", out], check=True, stdout=subprocess.DEVNULL)
        with open(out, newline="") as file:
            return list(csv.DictReader(file))


def room(program, options, row):
    """log(capacity / peak) of a row's plan; None where a compiler made it fit by recomputing, so that it is near the
    edge by construction. options: what predict takes."""
    arguments = [program, "predict", "--json", "--task-feature-lengths",
                 ",".join(filter(None, [row["inputs_length"], row["targets_length"]]))]
    for key, value in row.items():
        if value and "--" + key.replace("_", "-") in options:
            arguments += ["--" + key.replace("_", "-"), value]
    memory = json.loads(subprocess.run(arguments, stdout=subprocess.PIPE, check=False).stdout)["memory"]
    remade = memory.get("rematerialized_layer_count", 0) and memory["peak_bytes"] <= memory["capacity_bytes"]
    return None if remade else math.log(memory["capacity_bytes"] / memory["peak_bytes"])


def deviation_of_verdicts(rooms):
    """rooms: (log(capacity / peak), whether it ran). The deviation of a normal error under which as many verdicts are
    expected to be wrong as were, and 0.7 more: with none wrong, half of all such tables would have none."""
    allowed = 0.7 + sum((space >= 0) != ran for space, ran in rooms)

    def expected(deviation):
        return sum(0.5 * math.erfc(abs(space) / deviation / math.sqrt(2)) for space, _ in rooms)

    low, high = 1e-4, 10.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if expected(middle) < allowed else (low, middle)
    return low


def verdicts(program, found):
    """Of kinds whose memory nobody measured: [platform, software, chips, "memory", rows, 0, deviation, tables]."""
    kinds = collections.defaultdict(list)
    options = set(re.findall(r"--[a-z-]+", subprocess.run([program, "predict", "--help"], stdout=subprocess.PIPE,
                                                          check=True).stdout.decode()))
    for table in sorted(glob.glob("tests/data/measured/*.csv")):
        name = os.path.splitext(os.path.basename(table))[0]
        for row in predictions(program, table):
            kind = platform(row["topology"]), row.get("software") or "t5x"
            said = row.get("measured_oom") in ("0", "1") and row["predicted_step_s"]
            quantity = "pipelined_memory" if is_pipelined(row) else "memory"
            if said and row.get("memory_kind") in (None, "", "device") and (*kind, quantity) not in found:
                kinds[(*kind, quantity)].append((row, chip(row["topology"]), name))
    for kind, entries in sorted(kinds.items()):
        rooms = [(room(program, options, row), row["measured_oom"] == "0") for row, _, _ in entries]
        rooms = [entry for entry in rooms if entry[0] is not None]
        if len(rooms) < 10:
            continue  # too few to be near the edge
        yield [kind[0], kind[1], " ".join(sorted({e[1] for e in entries})), kind[2], len(rooms), "0.000",
               f"{deviation_of_verdicts(rooms):.3f}", "verdicts of " + " ".join(sorted({e[2] for e in entries}))]


def residuals(program):
    """(platform, software, quantity) -> [(log ratio, chip, table)], in the order of the tables."""
    found = collections.defaultdict(list)
    for table in sorted(glob.glob("tests/data/measured/*.csv")):
        name = os.path.splitext(os.path.basename(table))[0]
        for row in predictions(program, table):
            pipelined = "pipelined_" if is_pipelined(row) else ""
            kind = platform(row["topology"]), row.get("software") or "t5x"
            served = "served_" if row.get("step") not in (None, "", "train") else ""  # a step of inference
            pairs = [((served or pipelined) + "step", measured_step_s(row), number(row["predicted_step_s"])),
                     ("compiled_memory" if row.get("memory_kind") == "compiled" else pipelined + "memory",
                      number(row.get("measured_peak_memory_bytes")),
                      number(row["predicted_peak_memory_bytes"]))]
            for quantity, measured, predicted in pairs:
                if measured and predicted:
                    found[kind + (quantity,)].append((math.log(measured / predicted), chip(row["topology"]), name))
    return found


def moments(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1))


def summarize(program, found):
    rows, kinds = [], collections.defaultdict(list)
    for key in sorted(found):
        entries = found[key]
        if len(entries) < 4:
            continue  # nobody knows a spread from three
        mean, deviation = moments([e[0] for e in entries])
        kinds[key[2]].append((mean, deviation))
        rows.append([key[0], key[1], " ".join(sorted({e[1] for e in entries})), key[2], len(entries),
                     f"{mean:.3f}", f"{deviation:.3f}", " ".join(sorted({e[2] for e in entries}))])
    every = {what: kinds["pipelined_" + what] + kinds[what] for what in ("step", "memory")}
    every["memory"] += kinds["compiled_memory"]
    kinds = {"step": every["step"], "pipelined_step": every["step"], "memory": every["memory"],
             "pipelined_memory": every["memory"], "compiled_memory": every["memory"]}
    by_verdict = list(verdicts(program, found))
    for quantity, each in sorted(kinds.items()):
        mean, between = moments([k[0] for k in each])
        inside = sum(k[1] ** 2 for k in each) / len(each)
        pooled = math.sqrt(mean ** 2 + between ** 2 + inside)
        rows.append(["*", "*", "", quantity, len(each), "0.000", f"{pooled:.3f}", "every kind above"])
        # verdicts far from the edge say less than other kinds do
        rows += [row for row in by_verdict if row[3] == quantity and float(row[6]) < pooled]
    return sorted(rows, key=lambda row: (row[0] == "*", row[:4]))


def width(deviation, count):
    """Half the 90 % interval of one more value, where the deviation is that of count values."""
    return WITHIN * deviation * math.sqrt((1 + 1 / count) * ((count - 1) / (count - 3)))


def coverage(found):
    """Of every second row, the share within the intervals of the others."""
    inside = total = 0
    for key, entries in sorted(found.items()):
        known, asked = [e[0] for e in entries[::2]], [e[0] for e in entries[1::2]]
        if len(known) < 4:
            continue
        mean, deviation = moments(known)
        good = sum(abs(value - mean) <= width(deviation, len(known)) for value in asked)
        print(f"{' '.join(key):34} {good:4} of {len(asked):4} within ({100 * good / len(asked):.0f} %)")
        inside, total = inside + good, total + len(asked)
    if total:
        print(f"{'all':34} {inside:4} of {total:4} within ({100 * inside / total:.1f} %)")


def interval_without(table, key, found):
    """(mean, half width) of a kind's errors as other tables alone have them; of kinds that no other table has, as the
    kinds that other tables have differ from one another."""
    known = [e[0] for e in found[key] if e[2] != table]
    if len(known) >= 4:
        mean, deviation = moments(known)
        return mean, width(deviation, len(known))
    quantity = key[2].split("_")[-1]
    others = [[e[0] for e in entries if e[2] != table] for other, entries in found.items()
              if other[2].split("_")[-1] == quantity]
    kinds = [moments(values) for values in others if len(values) >= 4]
    mean, between = moments([k[0] for k in kinds])
    inside = sum(k[1] ** 2 for k in kinds) / len(kinds)
    return 0.0, WITHIN * math.sqrt(mean ** 2 + between ** 2 + inside)


def coverage_of_tables(found):
    """Of every table, the share of rows within the intervals that all other tables give."""
    tables = collections.defaultdict(list)
    for key, entries in found.items():
        for value, _, table in entries:
            mean, half = interval_without(table, key, found)
            tables[table].append(abs(value - mean) <= half)
    for table, inside in sorted(tables.items()):
        print(f"{'without ' + table:34} {sum(inside):4} of {len(inside):4} within ({100 * sum(inside) / len(inside):.0f} %)")
    every = [good for inside in tables.values() for good in inside]
    print(f"{'all, each without its table':34} {sum(every):4} of {len(every):4} within ({100 * sum(every) / len(every):.1f} %)")


def main():
    found = residuals(sys.argv[1])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS] + summarize(sys.argv[1], found))
    if "--check" in sys.argv:
        coverage(found)
        coverage_of_tables(found)
        stands = open(OUT).read() == text.getvalue()
        print("confidence: %d passed, %d failed" % (stands, not stands))
        if not stands:
            print("confidence: sim/confidence.csv is not what the tables give: make confidence")
            sys.exit(1)
        return
    with open(OUT + ".new", "w") as file:
        file.write(text.getvalue())
    os.replace(OUT + ".new", OUT)


main()
