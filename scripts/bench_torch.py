"""bench_torch.py MESHWRIGHT FOLDER: trains one GPT in PyTorch and here, from the same values, on the same batches, in the
same dtype, on one thread, and prints tokens per CPU second of both. Each times its own steps by its process's CPU clock,
the first ones left out, in which memory is touched for the first time; the two take turns, each round in processes of
their own, and the ratio is the median of the rounds', with the least and the largest beside it, since what shares the
machine's caches changes from round to round. Losses of both are printed, since a speed says nothing of a model that is
another one. bench_torch.py --child … is one round of PyTorch."""

import gzip
import json
import os
import statistics
import subprocess
import sys
import time

SIZES = {"emb_dim": 512, "num_heads": 8, "head_dim": 64, "mlp_dim": 2048, "num_layers": 8, "vocab_size": 8192}
LENGTH, BATCH, WARM_UP, STEPS, ROUNDS, SHOWN, RATE = 256, 8, 2, 4, 5, 16, 1e-3
MODEL = ("decoder_only:" + ",".join(f"{k}={v}" for k, v in SIZES.items())
         + ",mlp_activations=gelu,logits_via_embedding=1,position_encoding=learned,norm=layer,biases=1")


# ---- here ----

# Saves intermediate values as PyTorch's autograd does, so that nothing is computed twice.
def command(program, steps, dtype, *more):
    return [program, "run", "--model", MODEL, "--topology", "local:1", "--task-feature-lengths", str(LENGTH),
            "--batch-size", str(BATCH), "--optimizer", "adamw", "--in-process", "--json", "--z-loss", "0", "--dtype", dtype,
            "--remat-policy", "none", "--steps", str(steps), *more]


def run_here(arguments):
    return json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


def measure_here(program, dtype, data):
    answer = run_here(command(program, WARM_UP + STEPS, dtype, "--data", data, "--learning-rate", str(RATE)))
    return answer, statistics.mean(answer["processor_s"][WARM_UP:])


# ---- PyTorch ----

def read_array(numpy, folder, name):
    with open(f"{folder}/target.decoder.{name}/.zarray", encoding="utf-8") as file:
        shape = json.load(file)["shape"]
    chunk = ".".join("0" for _ in shape)
    with gzip.open(f"{folder}/target.decoder.{name}/{chunk}") as file:
        return numpy.frombuffer(file.read(), "<f4").reshape(shape).copy()


def child(checkpoint, data, dtype, logits, steps, profiles):
    import numpy
    import torch
    from torch.nn import functional
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(1)

    def parameter(name):
        return torch.nn.Parameter(torch.from_numpy(read_array(numpy, checkpoint, name)))

    class Dense(torch.nn.Module):  # x W + b, W as T5X stores it
        def __init__(self, name):
            super().__init__()
            self.weight = torch.nn.Parameter(parameter(name + ".kernel").data.t().contiguous())
            self.bias = parameter(name + ".bias")

        def forward(self, x):
            return functional.linear(x, self.weight, self.bias)

    class Norm(torch.nn.Module):
        def __init__(self, name):
            super().__init__()
            self.weight, self.bias = parameter(name + ".scale"), parameter(name + ".bias")

        def forward(self, x):
            return functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, 1e-6)

    class Layer(torch.nn.Module):
        def __init__(self, name):
            super().__init__()
            self.query, self.key, self.value, self.out = (
                Dense(f"{name}.self_attention.{part}") for part in ("query", "key", "value", "out"))
            self.wi, self.wo = Dense(name + ".mlp.wi"), Dense(name + ".mlp.wo")
            self.before, self.between = Norm(name + ".pre_self_attention_layer_norm"), Norm(name + ".pre_mlp_layer_norm")

        def heads(self, x):
            return x.view(x.shape[0], x.shape[1], SIZES["num_heads"], SIZES["head_dim"]).transpose(1, 2)

        def forward(self, x):
            normed = self.before(x)
            seen = functional.scaled_dot_product_attention(
                self.heads(self.query(normed)), self.heads(self.key(normed)), self.heads(self.value(normed)),
                is_causal=True, scale=1.0)
            x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
            return x + self.wo(functional.gelu(self.wi(self.between(x)), approximate="tanh"))

    class Gpt(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = parameter("token_embedder.embedding"), parameter("position_embedder.embedding")
            self.layers = torch.nn.ModuleList(Layer(f"layers_{i}") for i in range(SIZES["num_layers"]))
            self.norm = Norm("decoder_norm")

        def forward(self, tokens):
            x = functional.embedding(tokens, self.tokens) + self.positions[: tokens.shape[1]]
            for layer in self.layers:
                x = layer(x)
            return logits_of(self.norm(x) / SIZES["emb_dim"] ** 0.5, self.tokens)

    # T5X multiplies logits in float32 whatever the dtype (attend_dtype of its networks); autocast would in bfloat16.
    def logits_of(x, table):
        with torch.autocast("cpu", enabled=logits != "float32" and dtype == "bfloat16"):
            return functional.linear(x.float() if logits == "float32" else x, table)

    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-4, fused=True)
    with open(data, encoding="utf-8") as file:
        batches = [json.loads(line) for line in file][:steps]

    def step(batch):
        tokens = torch.tensor(batch["decoder_input_tokens"])
        targets = torch.tensor(batch["decoder_target_tokens"])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
            logits = model(tokens)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    losses, step_s, shares = [], [], []
    for batch in batches:
        begin = time.process_time()
        losses.append(step(batch))
        step_s.append(time.process_time() - begin)
    if profiles:
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            step(batches[-1])
        sums = sorted(((event.self_cpu_time_total, event.key) for event in seen.key_averages()), reverse=True)
        shares = [(key, own / sum(own for own, _ in sums)) for own, key in sums]
    print(json.dumps({"version": torch.__version__, "loss": losses, "processor_s": step_s, "shares": shares}))


def measure_torch(checkpoint, data, dtype, logits, profiles=""):
    """profiles: not empty, one more step says where its time goes."""
    arguments = ["--child", checkpoint, data, dtype, logits, str(WARM_UP + STEPS), profiles]
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"))
    answer = json.loads(done.stdout)
    return answer, statistics.mean(answer["processor_s"][WARM_UP:])


# ---- both ----

def put_rest(title, shares):
    """Where the time of a step goes, by operation: the longest."""
    print(f"  where the time goes {title}")
    for name, share in sorted(shares, key=lambda one: -one[1])[:SHOWN]:
        print(f"    {100 * share:5.1f} %  {name}")


def shares_here(answer):
    sums = {}
    for entry in answer["timeline"]:
        name = entry["name"] + (" backward" if entry["phase"] == "backward" else "")
        sums[name] = sums.get(name, 0) + entry["count"] * entry["time_s"]
    return [(name, time_s / answer["time"]["step_s"]) for name, time_s in sums.items()]


def put_rounds(dtype, theirs, ours, theirs_s, ours_s, loads):
    """Speeds, and how often ours is theirs in each round."""
    ratios = sorted(a / b for a, b in zip(theirs_s, ours_s))
    kernel, tokens = ours["hosts"][0]["kernel"], BATCH * LENGTH
    print(f"{dtype}: PyTorch {theirs['version']} {tokens / statistics.median(theirs_s):.0f} tokens a CPU second, here "
          f"({kernel}) {tokens / statistics.median(ours_s):.0f}: {statistics.median(ratios):.2f} times "
          f"({ratios[0]:.2f} to {ratios[-1]:.2f}; load of the machine {min(loads):.1f} to {max(loads):.1f})")


def main():
    program, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    data, kept = f"{folder}/batches.jsonl", f"{folder}/values"
    subprocess.run(["rm", "-rf", kept], check=True)
    with open(data, "w", encoding="utf-8") as file:
        for step in range(WARM_UP + STEPS):
            answer = subprocess.run(
                [program, "data", "--model", MODEL, "--topology", "local:1", "--task-feature-lengths", str(LENGTH),
                 "--batch-size", str(BATCH), "--step", str(step), "--json"], check=True, capture_output=True, text=True)
            file.write(json.dumps(json.loads(answer.stdout)) + "\n")
    run_here(command(program, 1, "float32", "--learning-rate", "0", "--checkpoint", kept, "--data", data))
    print(f"{MODEL}, {BATCH} x {LENGTH} tokens, AdamW, one thread; {ROUNDS} rounds in turns, {STEPS} steps each after "
          f"{WARM_UP}")
    for dtype in ("float32", "bfloat16"):
        theirs_s, ours_s, narrow_s, loads = [], [], [], []
        for turn in range(ROUNDS):
            last = "profile" if turn == ROUNDS - 1 else ""
            loads.append(os.getloadavg()[0])
            theirs, one_s = measure_torch(f"{kept}/checkpoint_1", data, dtype, "float32", last)
            theirs_s.append(one_s)
            ours, one_s = measure_here(program, dtype, data)
            ours_s.append(one_s)
            if dtype != "float32":
                narrow_s.append(measure_torch(f"{kept}/checkpoint_1", data, dtype, dtype)[1])
        put_rounds(dtype, theirs, ours, theirs_s, ours_s, loads)
        if narrow_s:
            print(f"  logits of both are in float32, as T5X has them; in {dtype}, as autocast would have them, PyTorch did "
                  f"{BATCH * LENGTH / statistics.median(narrow_s):.0f}")
        print("  losses of PyTorch", *(f"{loss:.5f}" for loss in theirs["loss"]))
        print("  losses here      ", *(f"{loss:.5f}" for loss in ours["loss"]))
        put_rest("here", shares_here(ours))
        put_rest("in PyTorch", theirs["shares"])
        worst = max(abs(a / b - 1) for a, b in zip(theirs["loss"], ours["loss"]))
        if worst > (1e-3 if dtype == "float32" else 2e-2):
            sys.exit(f"bench-torch: the two do not train the same model: losses are {worst:.1e} apart")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:6], int(sys.argv[6]), sys.argv[7])
    else:
        main()
