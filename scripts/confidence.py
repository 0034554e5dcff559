"""confidence.py PROGRAM [--check]: how far predictions are off on the tables of measurements in tests/data/measured, by
software and platform, as sim/confidence.csv has it: mean and deviation of log(measured / predicted). Writes that file;
--check only says whether it is what the program's predictions give, and how often measurements of every second row lie
within the 90 % intervals of the others."""
import collections
import csv
import glob
import io
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
    step = number(row.get("measured_step_s"))
    tokens = number(row.get("measured_tokens_per_s"))
    if step is None and tokens is not None:
        step = float(row["batch_size"]) * float(row["targets_length"]) / tokens
    return step


def predictions(program, table):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.csv")
        subprocess.run([program, "sweep", table, "--out", out], check=True, stdout=subprocess.DEVNULL)
        with open(out, newline="") as file:
            return list(csv.DictReader(file))


def residuals(program):
    """(platform, software, quantity) -> [(log ratio, chip, table)], in the order of the tables."""
    found = collections.defaultdict(list)
    for table in sorted(glob.glob("tests/data/measured/*.csv")):
        name = os.path.splitext(os.path.basename(table))[0]
        for row in predictions(program, table):
            if (number(row.get("pipeline_stages")) or 1) > 1:
                continue
            kind = platform(row["topology"]), row.get("software") or "t5x"
            pairs = [("step", measured_step_s(row), number(row["predicted_step_s"])),
                     ("compiled_memory" if row.get("memory_kind") == "compiled" else "memory",
                      number(row.get("measured_peak_memory_bytes")),
                      number(row["predicted_peak_memory_bytes"]))]
            for quantity, measured, predicted in pairs:
                if measured and predicted:
                    found[kind + (quantity,)].append((math.log(measured / predicted), chip(row["topology"]), name))
    return found


def moments(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1))


def summarize(found):
    rows, kinds = [], collections.defaultdict(list)
    for key in sorted(found):
        entries = found[key]
        if len(entries) < 4:
            continue  # nobody knows a spread from three
        mean, deviation = moments([e[0] for e in entries])
        kinds[key[2]].append((mean, deviation))
        rows.append([key[0], key[1], " ".join(sorted({e[1] for e in entries})), key[2], len(entries),
                     f"{mean:.3f}", f"{deviation:.3f}", " ".join(sorted({e[2] for e in entries}))])
    kinds["memory"] += kinds["compiled_memory"]
    kinds["compiled_memory"] = kinds["memory"]
    for quantity, each in sorted(kinds.items()):
        mean, between = moments([k[0] for k in each])
        inside = sum(k[1] ** 2 for k in each) / len(each)
        rows.append(["*", "*", "", quantity, len(each), f"{mean:.3f}", f"{math.sqrt(between ** 2 + inside):.3f}",
                     "every kind above"])
    return rows


def coverage(found):
    """Of every second row, the share within the intervals of the others."""
    inside = total = 0
    for key, entries in sorted(found.items()):
        known, asked = [e[0] for e in entries[::2]], [e[0] for e in entries[1::2]]
        if len(known) < 4:
            continue
        mean, deviation = moments(known)
        count = len(known)
        width = WITHIN * deviation * math.sqrt((1 + 1 / count) * ((count - 1) / (count - 3)))
        good = sum(abs(value - mean) <= width for value in asked)
        print(f"{' '.join(key):34} {good:4} of {len(asked):4} within ({100 * good / len(asked):.0f} %)")
        inside, total = inside + good, total + len(asked)
    if total:
        print(f"{'all':34} {inside:4} of {total:4} within ({100 * inside / total:.1f} %)")


def main():
    found = residuals(sys.argv[1])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS] + summarize(found))
    if "--check" in sys.argv:
        coverage(found)
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
