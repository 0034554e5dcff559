"""reference.py PROGRAM [--check]: writes the reference pages docs/reference-*.md from what the program says of itself (its help) and
from its data files. With --check, says which page is not up to date instead."""
import csv
import json
import re
import subprocess
import sys

BACK = "[Back to the README](../README.md). This page is generated; `make golden-update` renews it.\n"


def ask(*arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def rows(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def cell(text):
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|").strip()


def table(heads, lines):
    out = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(out + ["| " + " | ".join(cell(c) for c in line) + " |" for line in lines]) + "\n"


def command_names():
    names = []
    inside = False
    for line in ask("--help").splitlines():
        if line.startswith("commands:"):
            inside = True
        elif inside and not line.strip():
            break
        elif inside and re.match(r"  [a-z]", line):
            names.append(line.split()[0])
    return names


def help_all(name):
    """Every option, where a command's help shows the usual ones alone."""
    short = ask(name, "--help")
    return ask(name, "--help", "all") if "--help all" in short else short


def options(text):
    """(option, what it says) of a help text."""
    found = []
    for line in text.splitlines():
        option = re.match(r"  (--\S+)(?: (.*?))?(?:  +(.*))?$", line)
        if option:
            found.append([option.group(1), option.group(2) or "", option.group(3) or ""])
        elif found and line.startswith("        ") and line.strip():
            found[-1][2] += " " + line.strip()
    return found


def key_options():
    """What the help of predict lists before its own options: the keys of a plan."""
    found = []
    for option in options(help_all("predict")):
        if option[0] == "--gin-search-path":
            break
        found.append(option)
    return found


def commands():
    keys = {option[0] for option in key_options()}
    out = ["# Commands\n", BACK, "Every command takes `--help`, `--json` and `--out FILE`; the ending of FILE decides the form.\n"]
    for name in command_names():
        text = help_all(name)
        own = [o for o in options(text) if o[0] not in keys and o[0] not in ("--json", "--out", "--help")]
        takes_keys = any(o[0] in keys for o in options(text))
        out.append(f"## {name}\n\n```\n{text.split(chr(10) + chr(10))[0].rstrip()}\n```\n\n{text.split(chr(10) + chr(10))[1]}.\n")
        if takes_keys:
            out.append("It takes the [keys of a plan](reference-plan-keys.md) as options.\n")
        if own:
            out.append(table(["option", "value", "meaning"], [(f"`{o}`", f"`{v}`" if v else "", what) for o, v, what in own]))
    return "\n".join(out)


def plan_keys():
    found = key_options()
    first = [option[0] for option in found].index("--gpus")  # from here on: options that come to keys, and are none
    lines = [(f"`{option[2:].replace('-', '_')}`", f"`{value}`" if value else "", what) for option, value, what in found[:first]]
    degrees = [(f"`{option}`", f"`{value}`", what) for option, value, what in found[first:]]
    return "\n".join(["# Keys of a plan\n", BACK,
                      "The same keys are JSON members, columns of `sweep` tables, and options with `-` in place of `_`.\n",
                      table(["key", "values", "meaning"], lines),
                      "## Options that come to keys\n", table(["option", "values", "meaning"], degrees)])


def software():
    lines = [(f"`{r['software']}`", r["platform"], r["date"], r["source"]) for r in rows("sim/compile/software.csv")]
    usual = [(f"`{r['software']}`", f"`{r['key']}`", f"`{r['value']}`", r["source"])
             for r in rows("sim/plan/software_usual.csv")]
    versions = {(r["software"], r["platform"], r["version"]): r["source"] for r in rows("sim/plan/software_versions.csv")}
    return "\n".join(["# Training software\n", BACK, table(["software", "platform", "modelled as of", "source"], lines),
                      "## What a plan leaves to it\n", table(["software", "key", "value", "source"], usual),
                      "## Versions\n", table(["software", "platform", "version", "source"],
                                             [(f"`{s}`", p, f"`{v}`", source) for (s, p, v), source in versions.items()])])


def number(text, unit):
    return f"{float(text) / unit:.4g}" if text else ""


def chips():
    lines = [(f"`{r['name']}`", r["full_name"], number(r["bf16_flop_per_s"], 1e12), number(r["hbm_bytes"], 1e9),
              number(r["hbm_bytes_per_s"], 1e12), r["fabric"], r["confidence"]) for r in rows("topo/chips.csv")]
    return "\n".join(["# Chips\n", BACK,
                      "Each number and its source is a column of `topo/chips.csv`; further constants are in `sim/machine/*.csv`.\n",
                      table(["chip", "name", "bfloat16 TFLOP/s", "memory GB", "memory TB/s", "links", "how well known"], lines),
                      "## How topologies are written\n", "```\n" + ask("topology", "--help").rstrip() + "\n```\n"])


FILES = """# File formats

{back}
| file | what it holds | written by | read by |
|---|---|---|---|
| plan, `.json` | an object with the [keys of a plan](reference-plan-keys.md); `task_feature_lengths` is an object | `import --json` | every command that takes a plan |
| T5X gin, `.gin` | a run, infer or eval file | `export --format gin` | `import`, `predict`, `tune`, `run`, `infer` |
| answer, `.json` | what a command answered with `--json` | `--json --out FILE.json` | `compare`, `report`, `plot` |
| table, `.csv` | one plan a row, columns named by keys; measured columns are `measured_step_s`, `measured_tokens_per_s`, `measured_peak_memory_bytes`, `measured_oom` | `sweep`, `tune --enumerate` | `sweep`, `calibrate`, `plot` |
| profile, `.json` | `{{"constants": {{…}}, "passes": {{…}}, "network": "analytic"}}` | `calibrate` | `--profile` |
| topology, `.json` | what a topology is, member by member | you | `--topology @FILE.json` |
| model, `.json` | the fields of a model's line as members | you | `--model @FILE.json` |
| checkpoint, folder | T5X's layout: a Zarr (v2) array a parameter and a state, with a manifest of checksums | `run --checkpoint` | `run`, `infer` |
| batches, `.jsonl` | one batch a line: tokens, targets, weights | you | `run --data`, `infer --data` |
| trace, `.json` | Chrome's trace format; Perfetto shows it | `--trace FILE` | Perfetto |

## A prediction

`predict --json` answers one document. The categories of `memory` add up to `peak_bytes`; `step_s` is the sum of the four parts behind it.

```json
{keys}
```
"""


def shape(value):
    """A document with its values replaced by what they are."""
    if isinstance(value, dict):
        return {key: shape(v) for key, v in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "true or false" if isinstance(value, bool) else "number" if isinstance(value, (int, float)) else "text"


def files():
    document = json.loads(ask("predict", "examples/t5_11b_v4_512.json", "--json"))
    document["plan"] = "the plan, with every default filled in"
    return FILES.format(back=BACK, keys=json.dumps(shape(document), indent=1))


program, check = sys.argv[1], "--check" in sys.argv
stale = 0
for name, make in (("commands", commands), ("plan-keys", plan_keys), ("software", software), ("chips", chips), ("files", files)):
    path, text = f"docs/reference-{name}.md", make()
    if check:
        try:
            with open(path, encoding="utf-8") as file:
                same = file.read() == text
        except FileNotFoundError:
            same = False
        if not same:
            print(f"{path} is not up to date; make golden-update renews it")
            stale += 1
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
sys.exit(stale > 0)
