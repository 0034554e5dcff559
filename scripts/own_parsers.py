#!/usr/bin/env python3
"""own_parsers.py PROGRAM [COUNT [SEED]]: the software's own parsers read what export writes of COUNT random plans. Run by
a Python that has some of maxtext 0.2.5, megatron-core 0.19.2 (with torch), deepspeed, transformers, torchtitan 0.2.2 (torch
may be missing) and nanotron 0.4; what is not installed is left out. A plan that export refuses is no plan of the software."""
import contextlib
import importlib.util
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import types
import typing
import warnings

DENSE = ["llama3_8b", "qwen3_8b", "llama2_13b", "mistral_7b"]
GPUS = {"--topology": ["h100:1x8", "h100:2x8", "h100:8x8"], "--batch-size": ["64", "128", "256"], "--seq-len": ["2048", "4096"]}
SHARDED = {**GPUS, "--tp": ["1", "2", "4", "8"], "--pp": ["1", "2", "4"], "--num-microbatches": ["1", "4", "8"],
           "--sequence-parallel": ["0", "1"]}
ACCUMULATED = {**GPUS, "--model": DENSE, "--num-microbatches": ["1", "2", "4"], "--remat-policy": ["none", "full"], "--compile": ["0", "1"],
               "--loss": ["full", "fused"], "--cpu-offload": ["none", "optimizer", "optimizer+parameters"], "--dtype": ["bfloat16", "float16"],
               "--logical-axis-rules": ["zero3", "data_only"], "--optimizer-partitioning": ["none", "data", "data+gradients"]}
# Values of each option that plans are drawn from.
SPACES = {
    "maxtext": {"--model": ["llama3_8b", "gemma2_9b", "mistral_7b", "qwen3_8b", "llama2_70b", "mixtral_8x7b"],
                "--topology": ["v5e-64", "v5p-128", "v6e-64", "v4-64"], "--batch-size": ["64", "128"], "--tp": ["1", "2", "4"],
                "--seq-len": ["2048", "8192"], "--remat-policy": ["full", "minimal", "device:query_proj;offload:mlpwo", "save_qkv_proj"],
                "--dtype": ["bfloat16", "int8", "float32"], "--moment-dtype": ["float32", "bfloat16"], "--num-microbatches": ["1", "2"],
                "--optimizer": ["adamw", "sgd"], "--attention": ["flash", "unfused"], "--scanned": ["0", "1"]},
    "megatron": {**SHARDED, "--model": [*DENSE, "gpt3_13b", "mixtral_8x7b", "qwen3_30b_a3b", "deepseek_v2_lite", "deepseek_v3"], "--cp": ["1", "2"],
                 "--ep": ["1", "2", "8"], "--optimizer-partitioning": ["none", "data"], "--vp": ["1", "2"],
                 "--remat-policy": ["none", "full", "selective", "full;layers:1"], "--dtype": ["bfloat16", "float16", "fp8"],
                 "--pipeline-schedule": ["1f1b", "interleaved"], "--moe-dispatcher": ["alltoall", "deepep"],
                 "--mtp-layers": ["0", "1"], "--overlap-grad-reduce": ["0", "1"], "--tp-comm-overlap": ["0", "1"],
                 "--gradient-dtype": ["float32", "bfloat16"]},
    "torchtitan": {**SHARDED, "--model": ["llama3_8b", "llama3_70b", "qwen3_8b", "deepseek_v3", "llama3_405b"], "--cp": ["1", "2"],
                   "--remat-policy": ["none", "full", "selective", "full;every:2"], "--compile": ["0", "1"], "--dtype": ["bfloat16", "fp8"],
                   "--ep": ["1", "4"], "--weight-dtype": ["float32", "bfloat16"]},
    "nanotron": {**SHARDED, "--model": DENSE, "--remat-policy": ["none", "full"], "--cp": ["1", "2"]},
    "deepspeed": ACCUMULATED,
    "transformers": ACCUMULATED,
}
NEEDED = ("--model", "--topology", "--batch-size", "--seq-len")
WRITTEN_BY = {"transformers": "deepspeed", "deepspeed": "deepspeed"}
MODULES = {"megatron": "megatron.training"}


def draw(rng, space):
    """Options that plans must have, and about half of the others."""
    plan = {key: rng.choice(values) for key, values in space.items() if key in NEEDED or rng.random() < 0.4}
    return [word for item in {"--optimizer": "adamw", **plan}.items() for word in item]


def trainer_arguments(text):
    given = json.loads(text)
    return given, given.pop("deepspeed")


def read_by_transformers(text, _options):
    os.environ.setdefault("ACCELERATE_USE_CPU", "1")
    from transformers import HfArgumentParser, TrainingArguments
    given, _ = trainer_arguments(text)
    given.pop("bf16", None), given.pop("fp16", None)  # which need a GPU here
    HfArgumentParser(TrainingArguments).parse_dict({**given, "output_dir": "/tmp", "use_cpu": True})


def read_by_deepspeed(text, _options):
    """"auto" is what the Trainer makes of it."""
    from deepspeed.runtime.config import DeepSpeedConfig
    given, own = trainer_arguments(text)
    size, count = given["per_device_train_batch_size"], given["gradient_accumulation_steps"]
    own.update(train_micro_batch_size_per_gpu=size, gradient_accumulation_steps=count, train_batch_size=size * count,
               gradient_clipping=given.get("max_grad_norm", 1.0))
    for kind in ("bf16", "fp16"):
        if kind in own:
            own[kind]["enabled"] = given.get(kind, False)
    stage = own["zero_optimization"]["stage"]
    read = DeepSpeedConfig(own)
    assert read.zero_optimization_stage == stage and read.train_batch_size == size * count


def read_by_megatron(text, options):
    """Its parser and its checks of the whole, as on GPUs of Hopper."""
    typing.override = getattr(typing, "override", lambda function: function)  # of Python 3.12
    import torch
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0)
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    hosts, gpus = options[options.index("--topology") + 1].split(":")[1].split("x")
    os.environ.update(WORLD_SIZE=str(int(hosts) * int(gpus)), RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1")
    from megatron.training import arguments
    lines = [line for line in text.splitlines() if line.startswith("--")]
    sys.argv = ["pretrain_gpt.py", *(word for line in lines for word in line.split(" ", 1))]
    arguments.validate_args(arguments.parse_args())
    del os.environ["WORLD_SIZE"], os.environ["RANK"]


def read_by_maxtext(text, _options):
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from maxtext.configs import pyconfig
    line = text.replace("\\\n", " ").split('base.yml}"', 1)[1]
    words = subprocess.run(["bash", "-c", 'printf "%s\\n" ' + line], env={**os.environ, "OUTPUT": "/tmp"}, capture_output=True, text=True)
    base = os.path.join(os.path.dirname(pyconfig.__file__), "base.yml")
    pyconfig.initialize(["train", base, *(w for w in words.stdout.split("\n") if "=" in w), "skip_jax_distributed_system=True"])


def read_by_torchtitan(text, _options):
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


def read_by_nanotron(text, _options):
    """Release 0.4 is older than what export writes for: four settings have other names there."""
    import yaml
    engines = ("AllForwardAllBackwardPipelineEngine", "OneForwardOneBackwardPipelineEngine", "PipelineEngine")
    engine = type("Engine", (), {"__init__": lambda *_: None})
    for module, names in (("parallel.pipeline_parallel.engine", engines), ("models", ("NanotronModel",)),
                          ("logging", ("get_logger", "log_rank", "warn_once", "human_format"))):  # imported in a circle
        sys.modules.setdefault(f"nanotron.{module}", stub := types.ModuleType(module))
        stub.__dict__.update(dict.fromkeys(names, engine))
    from nanotron.config import get_config_from_dict
    given = yaml.safe_load(text.replace("TRAIN_STEPS", "10"))
    given["data"] = given.pop("data_stages")[0]["data"]
    given["optimizer"].update(given["optimizer"].pop("optimizer_factory"))
    given["optimizer"].pop("name", None), given["parallelism"].pop("recompute_layer", None)
    given["checkpoints"].pop("save_initial_state", None)
    get_config_from_dict(given)


def main():
    program, count, rng = sys.argv[1], int((sys.argv + ["100"])[2]), random.Random(int((sys.argv + ["0", "0"])[3]))
    failures = 0
    for software, space in SPACES.items():
        with contextlib.suppress(ImportError):
            if importlib.util.find_spec(MODULES.get(software, software)):
                failures += try_software(program, software, space, count, rng)
                continue
        print(f"{software}: not installed")
    return failures > 0


def try_software(program, software, space, count, rng):
    name, accepted, refused, tried = WRITTEN_BY.get(software, software), 0, 0, 0
    read = globals()[f"read_by_{software}"]
    while accepted + refused < count and tried < 40 * count:
        tried += 1
        options = draw(rng, space) + ["--software", name, "--format", name]
        done = subprocess.run([program, "export", *options], capture_output=True, text=True)
        if done.returncode not in (0, 3):
            raise SystemExit(f"export {' '.join(options)}: {done.stderr}")
        if done.returncode:
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                read(done.stdout, options)
            accepted += 1
        except (Exception, SystemExit) as error:
            refused += 1
            print(f"{software} refuses {' '.join(options)}: {type(error).__name__}: {str(error)[-300:]}")
    print(f"{software}: {accepted} of {accepted + refused} accepted, of {tried} drawn")
    return refused


if __name__ == "__main__":
    sys.exit(main())
