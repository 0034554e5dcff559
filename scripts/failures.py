"""failures.py PROGRAM FOLDER [EVERY [JOBS]]: a run resumes from a checkpoint and leaves one after each of 3 more steps.
In one run after the other a call fails, in the command and in its executor: each rename, fsync, write and open, and
every EVERY-th (1st) malloc. Each must end within a minute, done or with a message; the newest checkpoint must be whole;
and the same command must then come to the parameters of a run in which nothing failed, bit for bit. A folder that is
left with the same bytes as one before is not resumed again. JOBS (2) runs are under way at once, each in a folder of
memory (/dev/shm)."""

import collections
import concurrent.futures
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile

program, folder = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
jobs = int(sys.argv[4]) if len(sys.argv) > 4 else 2
plan = ["--model", "decoder_only:emb_dim=8,num_heads=2,head_dim=4,mlp_dim=8,num_layers=1,vocab_size=260",
        "--topology", "local:1", "--in-process", "--batch-size", "2", "--task-feature-lengths", "8", "--optimizer", "sgd",
        "--data", "examples/shanties.txt", "--checkpoint-every", "1", "--keep", "2", "--json"]
shown, known = 20, {}  # a folder's bytes: what was wrong when it was resumed


def run(where, steps, **fails):
    try:
        done = subprocess.run([program, "run", *plan, "--checkpoint", where + "/run", "--steps", str(steps)], text=True,
                              capture_output=True, timeout=60, env={**os.environ, "LC_ALL": "C", **fails}, errors="replace")
    except subprocess.TimeoutExpired:
        return None, "", "takes more than a minute"
    return done.returncode, done.stdout, done.stderr


def fresh(where):
    shutil.rmtree(where + "/run", ignore_errors=True)
    shutil.copytree(folder + "/before", where + "/run")


def arrays(where):
    with open(where + "/run/checkpoint_4/manifest.json") as file:
        return json.load(file)["arrays"]


def bytes_of(where):
    sums = hashlib.sha256()
    for at, folders, names in os.walk(where + "/run"):
        folders.sort()
        for name in sorted(names):
            with open(f"{at}/{name}", "rb") as file:
                data = b"" if name == ".meshwright-lock" else file.read()  # the lock says whose it was
            sums.update(f"{at[len(where):]}/{name}\0{len(data)}\0".encode() + data)
        sums.update(f"{at[len(where):]}\0".encode())
    return sums.digest()


def resumed(where):
    """What is wrong with what a run has left."""
    verified = subprocess.run([program, "checkpoint", "verify", where + "/run"], capture_output=True, text=True)
    if verified.returncode:
        return "the newest checkpoint is not whole: " + verified.stderr
    status, _, said = run(where, 4)
    if status:
        return "is not resumed: " + said
    if arrays(where) != straight["arrays"]:
        return "other parameters"
    half = [name for _, folders, names in os.walk(where + "/run") for name in folders + names if "partial" in name]
    return "something half written stays: " + half[0] if half else ""


def failed(where, inside, call, at):
    """One run in which that call fails: what is wrong."""
    fresh(where)
    status, out, said = run(where, 4, FAIL_IN=inside, FAIL_CALL=call, FAIL_AT=str(at), FAIL_MARK=where + "/mark",
                            LD_PRELOAD=folder + "/failing_calls.so")
    if status not in (0, 1, 3, 5):
        return f"exit {status}: {said}"
    if status == 0 and json.loads(out)["loss"] != straight["loss"]:
        return "exit 0 with other losses"
    if status and not any(line.startswith("meshwright: ") and line[12:] for line in said.split("\n")):
        return f"exit {status} without a message: {said}"
    state = bytes_of(where)
    if state not in known:
        known[state] = resumed(where)
    return known[state]


def count(inside, call):
    """How many such calls a run has in which none fails."""
    fresh(places[0])
    run(places[0], 4, FAIL_IN=inside, FAIL_CALL=call, FAIL_AT="0", FAIL_MARK=folder + "/count",
        LD_PRELOAD=folder + "/failing_calls.so")
    with open(folder + "/count") as file:
        return int(file.read())


shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
subprocess.run([os.environ.get("CC", "cc").split()[-1], "-O1", "-shared", "-fPIC", "-o", folder + "/failing_calls.so",
                "tests/failing_calls.c", "-ldl"], check=True)
memory = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
places, free = [f"{memory.name}/{i}" for i in range(jobs)], queue.SimpleQueue()
for place in places:
    os.mkdir(place)
    free.put(place)
run(places[0], 1)
shutil.copytree(places[0] + "/run", folder + "/before")
straight = {"loss": json.loads(run(places[0], 4)[1])["loss"], "arrays": arrays(places[0])}


def ask(job):
    place = free.get()
    wrong = failed(place, *job)
    free.put(place)
    return job, wrong


asked, bad = collections.Counter(), 0
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for inside in ("meshwright-rank", "meshwright"):
        for call in ("rename", "fsync", "write", "open", "malloc"):
            calls = count(inside, call)
            numbers = range(1, calls + 1, every if call == "malloc" else 1)
            of = [(inside, call, at) for at in sorted(numbers, key=lambda at: f"{at:b}"[::-1])]  # all parts of a run at once
            for job, wrong in pool.map(ask, of):
                asked[call] += 1
                bad += bool(wrong)
                if asked[call] % 1000 == 0:
                    print(f"failures: {asked[call]} calls of {call}, {bad} bad", file=sys.stderr, flush=True)
                if wrong and bad <= shown:
                    print(f"failures: call number {job[2]} of {call} in {inside}: {wrong}", flush=True)
            print(f"failures: {len(of)} of {calls} calls of {call} in {inside}", file=sys.stderr, flush=True)
memory.cleanup()
print(f"failures: {sum(asked.values())} calls failed ({', '.join(f'{asked[c]} {c}' for c in asked)}), {len(known)} folders "
      f"with different bytes were left; after {sum(asked.values()) - bad} the run was resumed without a loss")
sys.exit(bad > 0 or not asked)
