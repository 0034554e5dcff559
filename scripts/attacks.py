"""attacks.py PROGRAM FOLDER [ROUNDS [SEED]]: a run on two ranks that is attacked in each of ROUNDS (100) rounds, by
signals to the command, to mpirun or to a rank, by a second run in its folder, a full disk (as root), a flipped bit in its
newest checkpoint, or a clock that jumps. After each round the newest checkpoint is none older than what was seen before
the attack, it is whole, and its parameters are those of a run that nobody attacked, bit for bit; a flipped bit is
refused, or changes none of them. Prints a line for each kind of attack; exit 1: something was lost."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

program, folder = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 100
seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
chance = random.Random(seed)
here, reference, aside = folder + "/run", folder + "/reference", folder + "/aside"
plan = ["--model", "decoder_only:emb_dim=16,num_heads=2,head_dim=8,mlp_dim=32,num_layers=2,vocab_size=260",
        "--topology", "local:2", "--num-partitions", "2", "--task-feature-lengths", "16", "--batch-size", "4",
        "--optimizer", "adamw", "--data", "examples/shanties.txt"]


def start(where, steps, every=1, environment=None):
    return subprocess.Popen([program, "run", *plan, "--checkpoint", where, "--steps", str(steps), "--checkpoint-every",
                             str(every), "--keep", "3", "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True, env={**os.environ, **(environment or {})})


def end(run):
    try:
        said = run.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        run.kill()
        raise SystemExit("attacks: a run hangs")
    return run.returncode, said


def newest(where):
    names = os.listdir(where) if os.path.isdir(where) else []
    return max((int(n[11:]) for n in names if n.startswith("checkpoint_") and n[11:].isdigit()), default=0)


def parameters(where, step):
    with open(f"{where}/checkpoint_{step}/manifest.json") as file:
        return json.load(file)["arrays"]


def descendants(pid, name):
    """Processes of that name that the run has started, by /proc."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                words = file.read()
        except OSError:
            continue
        parents[int(entry)] = (int(words.rpartition(")")[2].split()[1]), words[words.index("(") + 1:words.rindex(")")])
    found = []
    for child in parents:
        at = child
        while at in parents and at != pid:
            at = parents[at][0]
        if at == pid and parents[child][1] == name:
            found.append(child)
    return found


def send(run, number, who):
    for pid in {"command": [run.pid], "mpirun": descendants(run.pid, "mpirun"),
                "rank": descendants(run.pid, "meshwright-rank")[:1]}[who]:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def fill_disk(run):
    try:
        with open(here + "/filler", "wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
    except OSError:
        pass
    time.sleep(chance.random())


def flip_bit(step):
    files = [f"{at}/{name}" for at, _, names in os.walk(f"{here}/checkpoint_{step}") for name in names]
    path = chance.choice(sorted(files))
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.seek(0)
        file.write(data)


def attack(kind, goal, problems):
    run = start(here, goal, environment={"LD_PRELOAD": folder + "/failing_calls.so", "WRONG_CLOCK": "1"} if kind == "clock"
                else None)
    time.sleep(chance.uniform(0.1, 2.0))
    before = newest(here)
    if kind.startswith("SIG"):
        number, who = kind.split(" to ")
        send(run, getattr(signal, number), who)
    elif kind == "full disk":
        fill_disk(run)
    elif kind == "two runs":
        code, said = end(start(here, goal))
        if code not in (0, 3):
            problems.append(f"the second run: exit {code}: {said}")
    code, said = end(run)
    if os.path.exists(here + "/filler"):
        os.remove(here + "/filler")
    if code not in {0, 3, 5, 6, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP} or (
            kind == "clock" and code):
        problems.append(f"exit {code}: {said}")
    return before


def check(before, problems):
    """The newest checkpoint: which step, and whether it is what it should be."""
    step = newest(here)
    if step < before:
        problems.append(f"step {before} was there, and {step} is left")
    if step == 0:
        return 0
    verified = subprocess.run([program, "checkpoint", "verify", f"{here}/checkpoint_{step}"], capture_output=True, text=True)
    if verified.returncode:
        problems.append(verified.stderr)
    code, said = end(start(reference, step, every=1000000))
    if code:
        problems.append(f"reference: exit {code}: {said}")
    elif parameters(here, step) != parameters(reference, step):
        problems.append(f"step {step}: other parameters than without attacks")
    return step


def flipped(step, problems):
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(f"{here}/checkpoint_{step}", aside)
    flip_bit(step)
    code, said = end(start(here, step + 1))
    if code == 3:
        shutil.rmtree(f"{here}/checkpoint_{step}")
        shutil.copytree(aside, f"{here}/checkpoint_{step}")
    elif code:
        problems.append(f"a flipped bit: exit {code}: {said}")
    return code == 3


shutil.rmtree(folder, ignore_errors=True)
os.makedirs(here)
subprocess.run([os.environ.get("CC", "cc").split()[-1], "-O1", "-shared", "-fPIC", "-o", folder + "/failing_calls.so",
                "tests/failing_calls.c", "-ldl"], check=True)
disk = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", here],
                                            capture_output=True).returncode == 0
kinds = [f"{number} to {who}" for number in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") for who in ("command", "mpirun", "rank")]
kinds += ["two runs", "flip", "clock"] * 3 + (["full disk"] * 3 if disk else [])
counts, lost, refused, done = {}, 0, 0, 0
try:
    for round_ in range(1, rounds + 1):
        kind, problems = chance.choice(kinds), []
        if kind == "flip" and done:
            refused += flipped(done, problems)
            before = done
        else:
            before = attack(kind, done + chance.randint(3, 30), problems)
        done = check(max(before, done), problems)
        counts[kind] = counts.get(kind, 0) + 1
        lost += bool(problems)
        for problem in problems:
            print(f"round {round_}, {kind}: {problem}", flush=True)
        print(f"round {round_}, {kind}: step {done}", file=sys.stderr, flush=True)
finally:
    if disk:
        subprocess.run(["umount", "-l", here], check=False)
for kind in sorted(counts):
    print(f"attacks: {counts[kind]:3} x {kind}" + (f", {refused} refused" if kind == "flip" else ""))
if not disk:
    print("attacks: no full disk, which takes root")
print(f"attacks: seed {seed}: {rounds - lost} of {rounds} rounds without a loss, {done} steps")
sys.exit(lost > 0)
