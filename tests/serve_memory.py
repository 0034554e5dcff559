#!/usr/bin/env python3
"""Sends the server of `meshwright serve` random requests, honest and hostile, and looks at its memory and at that of the program that
answers for it.

    serve_memory.py PROGRAM [REQUESTS [SEED]]

Prints both along the way; exit 1 if the last third needs more than the middle one by over 2 MiB.
"""
import http.client
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_browser import Served  # noqa: E402

MODELS = ["t5_1_1_small", "t5_1_1_base", "t5_1_0_11B", "llama3_8b", "mixtral_8x7b", "no_such_model"]
TOPOLOGIES = ["v4-8", "v4-64", "v5e-16", "h100:1x8", "h100:4x8", "v4-7"]


def question(chance):
    words = ["predict", "--model", chance.choice(MODELS), "--topology", chance.choice(TOPOLOGIES), "--batch-size", str(chance.choice([8, 16, 64, 7, 0])),
             "--task-feature-lengths", chance.choice(["128,128", "512", "64,64,64"])]
    for option, values in (("--num-partitions", ["1", "2", "4", "3"]), ("--num-microbatches", ["1", "2", "4"]), ("--optimizer", ["adamw", "adafactor", "lion"]),
                           ("--remat-policy", ["none", "minimal", "full"]), ("--software", ["t5x", "megatron", "maxtext", "fsdp"])):
        if chance.random() < 0.4:
            words += [option, chance.choice(values)]
    return json.dumps(words).encode()


def hostile(chance):
    return chance.choice([lambda: chance.randbytes(chance.randrange(200)), lambda: b'["' + b"a" * chance.randrange(5000) + b'"]', lambda: b"[" * chance.randrange(2000),
                          lambda: json.dumps(["predict", "/etc/passwd"]).encode(), lambda: json.dumps(["held", "x.gin", "x = " + "1" * 500, "import", "x.gin"]).encode()])()


def rss_kib(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("VmRSS")).split()[1])
    except OSError:
        return 0


def answerer_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return next(iter(file.read().split()), None)


def main():
    program, count, chance = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100000, random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 44)
    served, samples, statuses = Served(program), [], {}
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        for i in range(count):
            body = hostile(chance) if chance.random() < 0.2 else question(chance)
            try:
                connection.request("POST", "/ask", body, {"X-Meshwright-Token": served.token if chance.random() < 0.98 else "0" * 32})
                reply = connection.getresponse()
                reply.read()
                statuses[reply.status] = statuses.get(reply.status, 0) + 1
            except (http.client.HTTPException, OSError):
                connection.close()
            if i % max(1, count // 60) == 0:
                samples.append((rss_kib(served.process.pid), rss_kib(answerer_of(served.process.pid) or 0)))
                if len(samples) % 10 == 1:
                    print(f"{i} requests: server {samples[-1][0]} KiB, its answerer {samples[-1][1]} KiB, statuses {statuses}", flush=True)
    finally:
        ended = served.close()
    third = len(samples) // 3
    for name, of in (("server", 0), ("answerer", 1)):
        middle, last = max(s[of] for s in samples[third:2 * third]), max(s[of] for s in samples[2 * third:])
        print(f"{name}: at most {middle} KiB in the middle third, {last} KiB in the last")
        ended = ended or last > middle + 2048
    return bool(ended)


if __name__ == "__main__":
    sys.exit(main())
