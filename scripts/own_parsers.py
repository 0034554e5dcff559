#!/usr/bin/env python3
"""own_parsers.py PROGRAM: the software's own parsers read what export writes. Run by a Python that has maxtext (0.2.5),
torchtitan (0.2.2, with tyro and typeguard; torch may be missing) or transformers (with torch and accelerate); what is not
installed is left out."""
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import types
import warnings

MAXTEXT = (["llama3_8b", "gemma2_9b", "mistral_7b", "qwen3_8b", "llama2_70b"],
           [["--topology", "v5e-64", "--batch-size", "128"],
            ["--topology", "v5p-128", "--batch-size", "128", "--tp", "4", "--remat-policy", "minimal"],
            ["--topology", "v6e-64", "--batch-size", "64", "--dtype", "int8", "--remat-policy", "device:query_proj;offload:mlpwo"],
            ["--topology", "v4-64", "--batch-size", "64", "--moment-dtype", "bfloat16", "--num-microbatches", "2"]])
TORCHTITAN = (["llama3_8b", "llama3_70b", "qwen3_8b", "deepseek_v3", "llama3_405b"],
              [["--topology", "h100:4x8", "--batch-size", "64"],
               ["--topology", "h100:8x8", "--tp", "8", "--batch-size", "64", "--sequence-parallel", "1", "--remat-policy", "full"],
               ["--topology", "h100:8x8", "--pp", "4", "--batch-size", "64", "--num-microbatches", "4"],
               ["--topology", "h100:8x8", "--cp", "2", "--batch-size", "64", "--compile", "0"],
               ["--topology", "h100:4x8", "--ici-mesh", "data=4,fsdp=8", "--batch-size", "64", "--logical-axis-rules", "maxtext"]])


TRANSFORMERS = (["llama3_8b"],
                [["--topology", "h100:1x8", "--batch-size", "64", *more] for more in (
                    [], ["--remat-policy", "full"], ["--compile", "1"], ["--loss", "fused"], ["--cpu-offload", "optimizer"],
                    ["--logical-axis-rules", "data_only", "--optimizer-partitioning", "data+gradients"])])


def read_by_transformers(text):
    os.environ.setdefault("ACCELERATE_USE_CPU", "1")
    from transformers import HfArgumentParser, TrainingArguments
    given = json.loads(text)
    for key in ("deepspeed", "bf16"):  # which need DeepSpeed and a GPU here
        given.pop(key)
    HfArgumentParser(TrainingArguments).parse_dict({**given, "output_dir": "/tmp", "use_cpu": True})


def read_by_maxtext(text):
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from maxtext.configs import pyconfig
    line = text.replace("\\\n", " ").split('base.yml}"', 1)[1]
    words = subprocess.run(["bash", "-c", 'printf "%s\\n" ' + line], env={**os.environ, "OUTPUT": "/tmp"}, capture_output=True, text=True)
    base = os.path.join(os.path.dirname(pyconfig.__file__), "base.yml")
    pyconfig.initialize(["train", base, *(w for w in words.stdout.split("\n") if "=" in w), "skip_jax_distributed_system=True"])


def read_by_torchtitan(text):
    if "torchtitan" not in sys.modules:
        if not importlib.util.find_spec("torch"):  # the parser needs only its names of dtypes
            sys.modules["torch"] = type("Names", (types.ModuleType,), {"__getattr__": lambda self, name: name})("torch")
        package = types.ModuleType("torchtitan")  # without its layers
        package.__path__ = list(importlib.util.find_spec("torchtitan").submodule_search_locations)
        sys.modules["torchtitan"] = package
    from torchtitan.config import ConfigManager
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file, warnings.catch_warnings():
        file.write(text)
        file.flush()
        warnings.simplefilter("error")  # of a key that it does not know
        ConfigManager().parse_args(["--job.config_file", file.name])


def main():
    program, refused = sys.argv[1], 0
    for software, (models, plans), read in (("maxtext", MAXTEXT, read_by_maxtext), ("torchtitan", TORCHTITAN, read_by_torchtitan),
                                            ("transformers", TRANSFORMERS, read_by_transformers)):
        name = "deepspeed" if software == "transformers" else software
        if not importlib.util.find_spec(software):
            print(f"{software}: not installed")
            continue
        accepted = 0
        for model, plan in itertools.product(models, plans):
            options = ["--model", model, "--software", name, "--format", name, "--seq-len", "4096", "--optimizer", "adamw", *plan]
            text = subprocess.run([program, "export", *options], capture_output=True, text=True, check=True).stdout
            try:
                read(text)
                accepted += 1
            except (Exception, SystemExit) as error:
                refused += 1
                print(f"{software} refuses {' '.join(options)}: {error}")
        print(f"{software}: {accepted} of {len(models) * len(plans)} accepted")
    return refused > 0


sys.exit(main())
