"""reference.py PROGRAM [--check]: writes the reference pages docs/reference-*.md and python/meshwright/_options.py from what the program says of itself (its help) and
from its data files. With --check, says which page is not up to date instead."""
import csv
import json
import keyword
import re
import subprocess
import sys

COMMON = ["--json", "--out", "--help"]
DEGREES = ["--gpus", "--gpu", "--dp", "--fsdp", "--micro-batch-size", "--zero-stage"]
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


def options(name):
    return json.loads(ask(name, "--help", "--json"))["options"]


def row(option, name):
    """(option, value, what it says), as a table has them."""
    default = f" (default: {option['default']})" if "default" in option else ""
    value = option.get("value")
    return f"`{name}`", f"`{value}`" if value else "", option["help"] + default


def commands():
    keys = {option["name"] for option in options("predict") if "type" in option}
    out = ["# Commands\n", BACK, "Every command takes `--help`, `--json` and `--out FILE`; the ending of FILE decides the form.\n"]
    for name in command_names():
        text, listed = ask(name, "--help", "all"), options(name)
        own = [o for o in listed if "type" not in o and o["name"] not in COMMON + DEGREES]
        out.append(f"## {name}\n\n```\n{text.split(chr(10) + chr(10))[0].rstrip()}\n```\n\n{text.split(chr(10) + chr(10))[1]}.\n")
        if keys & {o["name"] for o in listed}:
            out.append("It takes the [keys of a plan](reference-plan-keys.md) as options.\n")
        if own:
            out.append(table(["option", "value", "meaning"], [row(o, o["name"]) for o in own]))
    return "\n".join(out)


def plan_keys():
    listed = options("predict")
    return "\n".join(["# Keys of a plan\n", BACK,
                      "The same keys are JSON members, columns of `sweep` tables, and options with `-` in place of `_`.\n",
                      table(["key", "values", "meaning"],
                            [row(o, o["name"][2:].replace("-", "_")) for o in listed if "type" in o]),
                      "## Options that come to keys\n",
                      table(["option", "values", "meaning"], [row(o, o["name"]) for o in listed if o["name"] in DEGREES])])


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


# ---- Python's options ----

# Functions, their commands, and the arguments in their own signatures.
PYTHON = [("predict", "predict", ()), ("tune", "tune", ()), ("verify", "verify", ()), ("export", "export", ("format",)),
          ("run", "run", ("steps", "in_process")), ("collective", "collective", ("kind",)), ("mesh", "mesh", ()),
          ("rules", "rules", ()), ("params", "params", ()), ("calibrate", "calibrate", ())]
PYTHON_HEAD = '''"""Which arguments each function takes. Generated from the program's tables of options; `make golden-update` renews it."""
from __future__ import annotations

import os
from typing import Any, Literal, Mapping, Sequence, TypedDict, Union

Text = Union[str, int, float, Sequence[Any], Mapping[str, Any], "os.PathLike[str]"]
'''


def python_type(option, several):
    """several: a search takes a list of values, too."""
    if "value" not in option:
        return "bool"
    kind = option.get("type", "text")
    words = ", ".join(f'"{word}"' for word in option.get("words", ()))
    if kind == "text":
        return "Text"
    one = {"whole": "int", "real": "float", "word": f"Literal[{words}]"}[kind]
    return f'Union[{one}, Literal["auto"], Sequence[{one}]]' if several else one


def python_class(name, base, listed, several):
    names = [o["name"][2:].replace("-", "_") for o in listed]
    lines = [f"    {n + '_' * keyword.iskeyword(n)}: {python_type(o, several)}" for n, o in zip(names, listed)]
    return f"\n\nclass {name}({base}, total=False):\n" + ("\n".join(lines) or "    pass") + "\n"


def python_options():
    keys = [o for o in options("predict") if "type" in o or o["name"] in DEGREES]
    every = {o["name"] for o in keys}
    out = PYTHON_HEAD + python_class("Plan", "TypedDict", keys, False)
    for function, command, own in PYTHON:
        hidden = COMMON[::2] + ([] if command == "calibrate" else ["--out"]) + ["--" + name.replace("_", "-") for name in own]
        listed = [o for o in options(command) if o["name"] not in hidden]
        has_all = every <= {o["name"] for o in listed} and function != "tune"
        listed = [o for o in listed if not has_all or o["name"] not in every]
        out += python_class(function.capitalize(), "Plan" if has_all else "TypedDict", listed, function == "tune")
    return out


PAGES = {"python/meshwright/_options.py": python_options}
PAGES.update({f"docs/reference-{page.__name__.replace('_', '-')}.md": page
              for page in (commands, plan_keys, software, chips, files)})
program, check = sys.argv[1], "--check" in sys.argv
stale = 0
for path, make in PAGES.items():
    text = make()
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
