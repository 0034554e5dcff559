"""evidence.py PROGRAM: writes docs/evidence.md. Each table of tests/data/measured is predicted anew and compared with what was measured;
docs/evidence_sets.csv says what a table is, how many constants were calibrated on it and what was chosen in sight of it."""
import csv
import os
import re
import subprocess
import sys
import tempfile

INTRO = """# Evidence

[Back to the README](../README.md). This page is generated; `make golden-update` renews it.

Each row compares predictions with measurements that others published, or that were made for this purpose (T5X on one H100, and steps
compiled by XLA's TPU compiler). *Error* is the mean of |predicted / measured - 1|. A verdict is whether the step fits. A table is *held out*
where nothing was calibrated on it and no mechanism was chosen in sight of it. The tables are in `tests/data/measured`.

"""
EXACT = """
## Equal to the real software

| what | compared with | result | test |
|---|---|---|---|
| meshes, data layouts, axis rules, parameters, optimizer state | T5X | all equal | `test_topo`, `test_layout`, `test_model` |
| device order of named axes | JAX's `mesh_utils` | all equal | `test_jax_mesh` |
| collectives of single operations | XLA's partitioner, 2,817 cases | 2,813 equal | `test_partition`, `test_reshard` |
| collectives of whole steps | XLA's partitioner, 344 steps | 327 equal, reasons in `tests/data/xla_differs.txt` | `test_partition` |
| decoding: tokens, scores, caches, random numbers | T5X and JAX's Threefry | all within tolerance | `test_inference` |
| decoding of 31 families: tokens, log-probabilities | transformers 5.24 with its cache | tokens equal, sums within 1e-5 | `test_families` |
| losses and gradient norms of `run` | T5X, from its own checkpoints | equal within rounding | `test_t5x_files`, `test_exec` |
| peak bytes of `run` | `predict` of the same plan | equal to the byte | `test_sharded` |
"""


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def measured(row, name):
    if name == "step_s" and number(row.get("measured_step_s")) is None and number(row.get("measured_tokens_per_s")):
        return float(row["batch_size"]) * float(row["targets_length"]) / float(row["measured_tokens_per_s"])
    return number(row.get("measured_" + name))


def error(rows, name, predicted):
    errors = [abs(number(row[predicted]) / measured(row, name) - 1) for row in rows
              if measured(row, name) and number(row.get(predicted)) and row.get("measured_oom") != "1"]
    return (f"{100 * sum(errors) / len(errors):.1f} %", len(errors)) if errors else ("", 0)


def verdicts(rows):
    judged = [row for row in rows if row.get("measured_oom") in ("0", "1") and row.get("predicted_fits") in ("0", "1")]
    if not any(row["measured_oom"] == "1" for row in judged):
        return ""
    right = sum((row["measured_oom"] == "0") == (row["predicted_fits"] == "1") for row in judged)
    return f"{right} of {len(judged)}"


def predict(path):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.csv")
        subprocess.run([program, "sweep", path, "--out", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(out, encoding="utf-8") as file:
            return [row for row in csv.DictReader(file) if row.get("quality") not in ("C", "other_model")]


def line(entry):
    rows = predict("tests/data/measured/" + entry["file"])
    answered = [row for row in rows if not row.get("error")]
    step, steps = error(answered, "step_s", "predicted_step_s")
    memory, peaks = error(answered, "peak_memory_bytes", "predicted_peak_memory_bytes")
    standing = "in-sample" if entry["calibrated"] != "0" or entry["chosen"] else "held out"
    return [entry["what"], len(rows), f"{step} of {steps}" if steps else "", f"{memory} of {peaks}" if peaks else "", verdicts(answered),
            standing, entry["calibrated"], entry["chosen"]]


program = sys.argv[1]
with open("docs/evidence_sets.csv", encoding="utf-8") as listed:
    entries = list(csv.DictReader(listed))
missing = sorted(set(os.listdir("tests/data/measured")) - {entry["file"] for entry in entries})
if missing:
    sys.exit("docs/evidence_sets.csv has no row of " + ", ".join(missing))
heads = ["what", "rows", "error of step time", "error of peak memory", "verdicts right", "standing", "constants calibrated", "chosen in sight of it"]
text = "| " + " | ".join(heads) + " |\n" + "|---|--:|--:|--:|--:|---|--:|---|\n"
for entry in entries:
    text += "| " + " | ".join(re.sub(r"\|", "\\|", str(value)) for value in line(entry)) + " |\n"
with open("docs/evidence.md", "w", encoding="utf-8") as page:
    page.write(INTRO + text + EXACT)
