"""questions.py PROGRAM [COUNT [SEED [SECONDS]]]: COUNT (50000) questions through `batch`, made of those of the golden
cases and of the examples in help by mutation: numbers at their bounds, bytes, words swapped, doubled, left out. Each is
answered on one line, under its number, with an exit code that has a meaning; none ends the process that answers it, takes
five minutes, or makes a sanitizer speak. Stops after SECONDS (600), and says how many were asked."""

import collections
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

program = os.path.realpath(sys.argv[1])
count = int(sys.argv[2]) if len(sys.argv) > 2 else 50000
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 600
chance = random.Random(seed)
# Commands that write, start other programs, or are no questions.
slow = {"calibrate", "tune", "sweep", "plot", "report"}  # one in ten of these is asked
left_out = {"run", "infer", "verify", "serve", "batch", "checkpoint"}
writes = {"--out", "--trace", "--emit", "--enumerate", "--profile"}
numbers = ["0", "-1", "1", "2", "3", "7", "1e308", "-0", "nan", "inf", "2147483647", "2147483648", "9223372036854775807",
           "9223372036854775808", "1e18", "0.5", "65536", "4096", "1000000", ""]
pieces = [",", "=", ":", "@", "+", "x", ";", "|", "\"", "{", "[", "\\", "%s", "\u00e9", "\t", "--", "null", "data", "model"]


def questions():
    """Every command line of the golden cases and of help that asks and writes nothing."""
    lines = []
    for name in sorted(os.listdir("tests/golden")):
        if name.endswith(".case"):
            with open(f"tests/golden/{name}", encoding="utf-8", errors="replace") as file:
                lines += file.read().split("\n===")[0].split("\n")
    for command in ("predict", "tune", "compare", "sweep", "import", "export", "mesh", "layout", "topology", "rules",
                    "models", "collective", "plot", "report", "calibrate"):
        lines += subprocess.run([program, command, "--help"], capture_output=True, text=True, check=True).stdout.split("\n")
    for line in lines:
        line = re.sub(r"\s*(\||2?>|<|;|&&).*", "", line.strip())
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        if len(words) > 1 and words[0] == "meshwright" and words[1] not in left_out and not writes & set(words):
            yield words[1:]


def mutated_word(word):
    found = list(re.finditer(r"-?\d+(\.\d+)?(e-?\d+)?", word))
    kind = chance.randrange(5)
    if found and kind < 2:
        at = chance.choice(found)
        return word[:at.start()] + chance.choice(numbers) + word[at.end():]
    place = chance.randrange(len(word) + 1)
    if kind == 2:
        return word[:place] + chance.choice(pieces) + word[place:]
    if kind == 3:
        return word[:place] + word[place + chance.randint(1, 3):]
    return word[:place] + chr(chance.randint(1, 126)) + word[place + 1:]


def mutated(words, seeds):
    words = list(words)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at = chance.randrange(len(words))
        kind = chance.choice([0, 0, 0, 0, 0, 0, 4, 5, 6, 7])
        if kind == 0 and len(words) > 1 and not at:
            at = chance.randrange(1, len(words))
        if kind < 4:
            words[at] = mutated_word(words[at])
        elif kind == 4 and len(words) > 1:
            del words[at]
        elif kind == 5:
            words.insert(at, chance.choice(words))
        elif kind == 6:
            other = chance.choice(seeds)
            cut = chance.randrange(len(other))
            words[at:] = other[cut:]
        else:
            words[at] = chance.choice(chance.choice(seeds))
    allowed = words and words[0] not in left_out and not any(w.startswith(tuple(writes)) for w in words)
    return words if allowed and not any(w.startswith("--o") for w in words) else ["topology", "v4-8"]


seeds = list(questions())
work = tempfile.mkdtemp()
for name in ("examples", "tests/golden/files"):
    shutil.copytree(name, f"{work}/{os.path.basename(name)}")
environment = {"ASAN_OPTIONS": "allocator_may_return_null=1", "PATH": os.environ.get("PATH", "")}
batch = subprocess.Popen([program, "batch", "--timeout", "300"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=open(f"{work}/err", "wb"), cwd=work, env=environment, text=True, encoding="utf-8")
exits, faults, start, asked = collections.Counter(), [], time.monotonic(), 0
slowest = 0, []
while asked < count and time.monotonic() - start < seconds:
    words = mutated(chance.choice(seeds), seeds)
    if words[0] in slow and chance.randrange(10):
        continue
    began = time.monotonic()
    batch.stdin.write(json.dumps(words) + "\n")
    batch.stdin.flush()
    asked += 1
    line = batch.stdout.readline()
    slowest = max(slowest, (time.monotonic() - began, words))
    try:
        answer = json.loads(line)
        exits[answer["exit"]] += 1
        good = answer["question"] == asked and answer["exit"] in (0, 2, 3, 4) and ("result" in answer or "error" in answer)
    except (ValueError, KeyError):
        good = False
    if not good:
        faults.append(words)
        print(f"{json.dumps(words)}\n  {line[:400].strip()}", flush=True)
    if not line:
        break
batch.stdin.close()
batch.wait()
with open(f"{work}/err", encoding="utf-8", errors="replace") as file:
    said = file.read()
shutil.rmtree(work)
print(said[:4000], end="")
print(f"questions: seed {seed}: {asked} asked of {len(seeds)} seeds, exits {dict(sorted(exits.items()))}, {len(faults)} faults, "
      f"slowest {slowest[0]:.1f} s: {shlex.join(slowest[1])[:300]}")
sys.exit(bool(faults) or "runtime error" in said or "ERROR: " in said or asked == 0)
