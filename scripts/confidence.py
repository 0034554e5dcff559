"""confidence.py PROGRAM [--check]: how far predictions are off on the tables of measurements in tests/data/measured, by
software and platform, as sim/predict/confidence.csv has it, of log(measured / predicted) by a model of random effects: rows
deviate from the mean of their table (deviation_log), and tables from one another, so that the mean of one that nobody
has seen deviates from those seen, mean_log, by between_log. How far tables of a kind differ is worked out over all kinds
that have several, under a flat prior on that deviation (Gelman 2006, Bayesian Analysis 1:515): few tables tell little.
Of memory that nobody measured, where it is known what ran and what did not fit, the deviation under which a verdict
less or more would be wrong than was. Of a kind without a table, the interval that holds a random row of a new kind with
90 %, whatever the distribution, if kinds are exchangeable (hierarchical conformal prediction: Lee, Barber, Willett
2023), smoothed, so that it is 90 % in the mean and not 90 % at least (Vovk, Gammerman, Shafer 2005, ch. 2). Writes that
file; --check only says whether it is what the program's predictions give, and how often every second row lies within the 90 %
intervals of the others, and a whole table within what all others give: of the mean table, 85 to 95 %."""
import collections
import csv
import glob
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile

COLUMNS = ["platform", "software", "chips", "dtypes", "classes", "most_devices", "quantity", "rows", "mean_log",
           "deviation_log", "between_log", "tables"]
OUT = "sim/predict/confidence.csv"
WITHIN = 1.6449
COVERED = 0.9
LEAST_ROWS = 4  # nobody knows a spread from three
GRID = [0.002 * step for step in range(251)]  # of the deviation between tables


# of confidence.csv, a row; mean, deviation and between are of logarithms
Kind = collections.namedtuple("Kind", "key rows covers mean deviation between tables")
# one measurement: log(measured / predicted), and its subject
Entry = collections.namedtuple("Entry", "value table chip dtype kind devices", defaults=("", "", 0))
LONG = 16384  # tokens of a sequence (LONG_LENGTH in sim/predict/confidence.c)


def with_experts():
    with open("model/expert_zoo.csv", newline="") as file:
        return {row["name"] for row in csv.DictReader(file)}


def model_class(row):
    """As confidence.c tells models apart."""
    if "experts" in row["model"] or row["model"].split(":")[0] in with_experts():
        return "experts"
    return "long" if float(row.get("targets_length") or 0) >= LONG else "dense"


def device_count(topology):
    shape = re.search(r":([\dx]+)", topology)
    if shape:
        return math.prod(int(n) for n in shape.group(1).split("x"))
    digits = re.search(r"-(\d+)", topology)
    slices = re.search(r"slices=(\d+)", topology)
    cores = 2 if chip(topology) in ("v4", "v5p") else 1  # that the number counts, of a device
    return int(digits.group(1)) // cores * int(slices.group(1) if slices else 1) if digits else 1


def entry(value, table, row):
    return Entry(value, table, chip(row["topology"]), row.get("dtype") or "bfloat16", model_class(row),
                 device_count(row["topology"]))


def covers(entries):
    """[chips, dtypes, classes, most devices] of a kind's rows."""
    return [" ".join(sorted({e.chip for e in entries})), " ".join(sorted({e.dtype for e in entries})),
            " ".join(sorted({e.kind for e in entries})), max(e.devices for e in entries)]


def chip(topology):
    return re.split(r"[:@]", topology)[0] if not re.match(r"v\d+[a-z]*-\d", topology) else topology.split("-")[0]


def platform(topology):
    return "tpu" if re.match(r"v\d|tpu", topology) and not topology.startswith("v100") else "gpu"


def number(cell):
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if value > 0 and math.isfinite(value) else None


def measured_step_s(row):
    """None of doubtful rows: C, or what ran was another model than the row's."""
    if row.get("quality") in ("C", "other_model", "doubtful"):
        return None
    step = number(row.get("measured_step_s"))
    tokens = number(row.get("measured_tokens_per_s"))
    if step is None and tokens is not None:
        step = float(row["batch_size"]) * float(row["targets_length"]) / tokens
    return step


def is_pipelined(row):
    return (number(row.get("pipeline_stages")) or 1) > 1


def prefix(row):
    """Of the quantity's name: experts are a kind of their own, with stages and without."""
    if row.get("step") not in (None, "", "train"):
        return "served_"
    return "expert_" if model_class(row) == "experts" else "pipelined_" if is_pipelined(row) else ""


def predictions(program, table):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.csv")
        subprocess.run([program, "sweep", table, "--out", out], check=True, stdout=subprocess.DEVNULL)
        with open(out, newline="") as file:
            return list(csv.DictReader(file))


def memory_of(program, options, row):
    """Of a row's plan, as predict answers; {}: it does not. options: what predict takes."""
    arguments = [program, "predict", "--json", "--task-feature-lengths",
                 ",".join(filter(None, [row.get("inputs_length"), row["targets_length"]]))]
    for key, value in row.items():
        if value and key != "notes" and "--" + key.replace("_", "-") in options:
            arguments += ["--" + key.replace("_", "-"), value]
    answer = subprocess.run(arguments, stdout=subprocess.PIPE, check=False).stdout
    return json.loads(answer).get("memory", {}) if answer else {}


def options_of(program):
    return set(re.findall(r"--[a-z-]+", subprocess.run([program, "predict", "--help", "all"], stdout=subprocess.PIPE,
                                                       check=True).stdout.decode()))


def room(program, options, row):
    """log(capacity / peak) of a row's plan; None where a compiler made it fit by recomputing, so that it is near the
    edge by construction."""
    memory = memory_of(program, options, row)
    if not memory:
        return None
    remade = memory.get("rematerialized_layer_count", 0) and memory["peak_bytes"] <= memory["capacity_bytes"]
    return None if remade else math.log(memory["capacity_bytes"] / memory["peak_bytes"])


def deviation_of_verdicts(rooms):
    """rooms: (log(capacity / peak), whether it ran). The deviation of a normal error under which as many verdicts are
    expected to be wrong as were, and 0.7 more: with none wrong, half of all such tables would have none."""
    allowed = 0.7 + sum((space >= 0) != ran for space, ran in rooms)

    def expected(deviation):
        return sum(0.5 * math.erfc(abs(space) / deviation / math.sqrt(2)) for space, _ in rooms)

    low, high = 1e-4, 10.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if expected(middle) < allowed else (low, middle)
    return low


def verdicts(program, found):
    """Of kinds whose memory nobody measured: [platform, software, chips, "memory", rows, 0, deviation, tables]."""
    kinds = collections.defaultdict(list)
    options = options_of(program)
    for table in sorted(glob.glob("tests/data/measured/*.csv")):
        name = os.path.splitext(os.path.basename(table))[0]
        for row in predictions(program, table):
            kind = platform(row["topology"]), row.get("software") or "t5x"
            said = row.get("measured_oom") in ("0", "1") and row["predicted_step_s"]
            quantity = prefix(row) + "memory"
            if said and row.get("memory_kind") in (None, "", "device") and (*kind, quantity) not in found:
                kinds[(*kind, quantity)].append((row, entry(0, name, row)))
    for kind, entries in sorted(kinds.items()):
        rooms = [(room(program, options, row), row["measured_oom"] == "0") for row, _ in entries]
        rooms = [r for r in rooms if r[0] is not None]
        if len(rooms) < 10:
            continue  # too few to be near the edge
        of = [e for _, e in entries]
        yield Kind(kind, len(rooms), covers(of), 0.0, deviation_of_verdicts(rooms),
                   between(found, kind[2]) * math.sqrt(2), "verdicts of " + " ".join(sorted({e.table for e in of})))


def is_drawn(table):
    """Of plans drawn at random that a compiler was asked about, not of those somebody ran."""
    return os.path.basename(table).startswith(("compiled_memory", "aot_maxtext"))


def said_bytes(row):
    """Before the compiler was asked, where a row says so: mechanisms are derived in sight of its answers."""
    return number(row.get("blind_peak_memory_bytes")) or number(row["predicted_peak_memory_bytes"])


def residuals(program):
    """(platform, software, quantity) -> [(log ratio, chip, table)], in the order of the tables."""
    found = collections.defaultdict(list)
    for table in sorted(glob.glob("tests/data/measured/*.csv")):
        name = os.path.splitext(os.path.basename(table))[0]
        for row in predictions(program, table):
            kind = platform(row["topology"]), row.get("software") or "t5x"
            pairs = [(prefix(row) + "step", measured_step_s(row), number(row["predicted_step_s"])),
                     ("compiled_memory" if row.get("memory_kind") == "compiled" else prefix(row) + "memory",
                      number(row.get("measured_peak_memory_bytes")), said_bytes(row))]
            for quantity, measured, predicted in pairs:
                if measured and predicted:
                    found[kind + (quantity,)].append(entry(math.log(measured / predicted), name, row))
    return found


def moments(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1))


def by_table(entries):
    tables = collections.defaultdict(list)
    for e in entries:
        tables[e.table].append(e.value)
    return list(tables.values())


def family(quantity):
    return quantity.split("_")[-1]


def of_family(found, quantity):
    return {key: entries for key, entries in found.items() if family(key[2]) == family(quantity)}


def within(tables):
    """(sum of squares about the tables' own means, degrees of freedom)."""
    squares = sum((v - moments(values)[0]) ** 2 for values in tables for v in values)
    return squares, sum(len(values) - 1 for values in tables)


def siblings(found, quantity):
    """Tables whose means may be compared, in groups of several. A software's memory is laid out by one allocator with
    stages and without; a pipeline's time has parts that no other has."""
    groups = collections.defaultdict(list)
    for key, entries in of_family(found, quantity).items():
        groups[key[:2] if family(quantity) == "memory" else key] += by_table(entries)
    return [tables for _, tables in sorted(groups.items()) if len(tables) > 1]


def usual_variance(found, quantity):
    """The median of the kinds' own: what a group of few rows is taken to have, as if three more rows had shown it."""
    each = [within(by_table(entries)) for entries in of_family(found, quantity).values()]
    known = sorted(squares / freedom for squares, freedom in each if freedom >= LEAST_ROWS - 1)
    return known[len(known) // 2]


def likelihood(groups, between_log):
    """Of the groups [[(mean, variance of that mean)]], restricted: each group's own mean is integrated out."""
    total = 0.0
    for tables in groups:
        weights = [1 / (between_log ** 2 + variance + 1e-12) for _, variance in tables]
        middle = sum(w * mean for w, (mean, _) in zip(weights, tables)) / sum(weights)
        squares = sum(w * (mean - middle) ** 2 for w, (mean, _) in zip(weights, tables))
        total += 0.5 * (sum(map(math.log, weights)) - math.log(sum(weights)) - squares)
    return total


def between(found, quantity):
    """The deviation between tables of one kind: the root of the mean of its square over what it may be."""
    usual, groups = usual_variance(found, quantity), []
    for tables in siblings(found, quantity):
        squares, freedom = within(tables)
        variance = (squares + 3 * usual) / (freedom + 3)
        groups.append([(moments(values)[0], variance / len(values)) for values in tables])
    logs = [likelihood(groups, value) for value in GRID]
    weights = [math.exp(value - max(logs)) for value in logs]
    return math.sqrt(sum(w * value ** 2 for w, value in zip(weights, GRID)) / sum(weights))


def mean_of_tables(entries, tau):
    """(mean, its variance, that of a row about its table's mean)."""
    tables = by_table(entries)
    squares, freedom = within(tables)
    variance = squares / freedom
    weights = [1 / (tau ** 2 + variance / len(values)) for values in tables]
    return sum(w * moments(values)[0] for w, values in zip(weights, tables)) / sum(weights), 1 / sum(weights), variance


def variance_of_kinds(found, quantity, tau):
    """The variance of the kinds' true means, averaged over its likelihood. About 0: a kind that was never measured may
    be predicted too large or too small alike."""
    known = [mean_of_tables(entries, tau)[:2] for entries in of_family(found, quantity).values() if is_known(entries)]
    logs = [-0.5 * sum(math.log(value ** 2 + v) + mean ** 2 / (value ** 2 + v) for mean, v in known) for value in GRID]
    weights = [math.exp(value - max(logs)) for value in logs]
    return sum(w * value ** 2 for w, value in zip(weights, GRID)) / sum(weights)


def known_kind(key, entries, found):
    """The mean error of a few tables is partly the kind's and partly these tables' own. The user's cluster is none of
    them, so only the kind's share is expected there (the best linear prediction)."""
    tau = between(found, key[2])
    mean, variance_of_mean, variance = mean_of_tables(entries, tau)
    of_kinds = variance_of_kinds(found, key[2], tau)
    share = of_kinds / (of_kinds + variance_of_mean)
    return Kind(key, len(entries), covers(entries), share * mean, math.sqrt(variance),
                math.sqrt(tau ** 2 + share * variance_of_mean), " ".join(sorted({e.table for e in entries})))


def is_known(entries):
    return len(entries) >= LEAST_ROWS and within(by_table(entries))[1] > 0


def deviation_of_new_kinds(found, quantity):
    """Each kind weighs the same, and its rows share that. The one to come weighs as much, and may lie anywhere: half of
    it is taken to lie beyond all others, since to take all of it holds more than was asked."""
    kinds = list(of_family(found, quantity).values())
    rows = sorted((abs(e.value), 1 / len(entries)) for entries in kinds for e in entries)
    reached = 0.0
    for half, weight in rows:
        reached += weight / (len(kinds) + 0.5)
        if reached >= COVERED:
            break
    return half / WITHIN


def summarize(program, found):
    rows = compiled_kinds(program)
    by_draws = {row.key for row in rows}
    rows += [known_kind(key, entries, found) for key, entries in sorted(found.items())
             if is_known(entries) and key not in by_draws]
    by_verdict = list(verdicts(program, found))
    for quantity in ("compiled_memory", "memory", "pipelined_memory", "pipelined_step", "served_step", "step"):
        new = deviation_of_new_kinds(found, quantity)
        rows.append(Kind(("*", "*", quantity), len(of_family(found, quantity)), ["", "", "", ""], 0.0, new, 0.0, "every kind above"))
        # verdicts far from the edge say less than other kinds do
        rows += [row for row in by_verdict if row.key[2] == quantity and math.hypot(row.deviation, row.between) < new]
    return [[k.key[0], k.key[1], *k.covers, k.key[2], k.rows, f"{k.mean:.3f}", f"{k.deviation:.3f}", f"{k.between:.3f}",
             k.tables] for k in sorted(rows, key=lambda k: (k.key[0] == "*", k.key))]


def compiled_rows(program):
    """(key, entry, and another of what was predicted before the compiler was asked, or None) of its own answers."""
    options = options_of(program)
    for table in filter(is_drawn, sorted(glob.glob("tests/data/**/*.csv", recursive=True))):
        name = os.path.splitext(os.path.basename(table))[0]
        for row in predictions(program, table):
            if not number(row["predicted_peak_memory_bytes"]) or row["measured_oom"] == "1" and row["predicted_fits"] == "0":
                continue  # no answer; or by how much both say that it does not fit is no error that anyone acts on
            rescued = row["predicted_fits"] == "1" and memory_of(program, options, row).get("rematerializes")
            scanned = row.get("scanned", "") != "0" if row["software"] == "maxtext" else row["model"].startswith("scalable_")
            of_policy = row["remat_policy"] if row["remat_policy"] in ("none", "minimal", "full") else "memory"
            stratum = "rescued" if rescued else of_policy if scanned else "unscanned"
            now, then = (number(row.get(said)) for said in ("predicted_peak_memory_bytes", "blind_peak_memory_bytes"))
            of = [said and entry(math.log(float(row["measured_peak_memory_bytes"]) / said), name, row) for said in (now, then)]
            yield (platform(row["topology"]), row["software"], "compiled_" + stratum), *of


def compiled_kinds(program):
    """Of memory as compiled: by how layers run and what their backward pass recomputes; and of what is said to fit only
    because arrays are recomputed. Plans were drawn at random, so that one more is of those drawn; what the mean is not
    known by is its between_log. Most rows were looked at since they were predicted: of a kind with rows that say what
    was predicted before the compiler was asked, these give the variance if they are farther off. Of 149 such rows in ten
    draws 86 % lie within the intervals that all other draws give, with half of that variance 82 %."""
    seen, blind = collections.defaultdict(list), collections.defaultdict(list)
    for key, now, then in compiled_rows(program):
        seen[key].append(now)
        blind[key] += [then] if then else []
    kinds = []
    for key, entries in sorted(seen.items()):
        mean, deviation = moments([e.value for e in entries])
        if len(blind[key]) >= LEAST_ROWS:
            square = sum((e.value - mean) ** 2 for e in blind[key]) / len(blind[key])
            deviation = max(deviation, math.sqrt(square))  # few that are near narrow nothing
        if len(entries) >= LEAST_ROWS:
            kinds.append(Kind(key, len(entries), covers(entries), mean, deviation, deviation / math.sqrt(len(entries)),
                              " ".join(sorted({e.table for e in entries}))))
    return kinds


def half_width(kind):
    """Half the 90 % interval of a row of another table (sim/predict/confidence.c)."""
    if kind.key[0] == "*":
        return WITHIN * kind.deviation
    return WITHIN * math.hypot(kind.deviation * math.sqrt((kind.rows - 1) / (kind.rows - 3)), kind.between)


def coverage(found):
    """Of every second row, the share within the intervals of the others."""
    inside = total = 0
    for key, entries in sorted(found.items()):
        known, asked = entries[::2], [e.value for e in entries[1::2]]
        if not is_known(known):
            continue
        kind = known_kind(key, known, found)
        good = sum(abs(value - kind.mean) <= half_width(kind) for value in asked)
        print(f"{' '.join(key):34} {good:4} of {len(asked):4} within ({100 * good / len(asked):.0f} %)")
        inside, total = inside + good, total + len(asked)
    if total:
        print(f"{'all':34} {inside:4} of {total:4} within ({100 * inside / total:.1f} %)")


def kind_without(table, key, found):
    """What the other tables alone say of a kind."""
    others = {other: [e for e in entries if e.table != table] for other, entries in found.items()}
    others = {other: entries for other, entries in others.items() if entries}
    if is_known(others.get(key, [])):
        return known_kind(key, others[key], others)
    return Kind(("*", "*", key[2]), 0, ["", "", "", ""], 0.0, deviation_of_new_kinds(others, key[2]), 0.0, "")


def coverage_of_tables(found):
    """Of every table, the share of rows within the intervals that all other tables give. Returns the mean share."""
    tables = collections.defaultdict(list)
    for key, entries in found.items():
        for table in sorted({e.table for e in entries}):
            kind = kind_without(table, key, found)
            tables[table] += [abs(e.value - kind.mean) <= half_width(kind) for e in entries if e.table == table]
    for table, inside in sorted(tables.items()):
        print(f"{'without ' + table:34} {sum(inside):4} of {len(inside):4} within ({100 * sum(inside) / len(inside):.0f} %)")
    every = [good for inside in tables.values() for good in inside]
    print(f"{'all, each without its table':34} {sum(every):4} of {len(every):4} within ({100 * sum(every) / len(every):.1f} %)")
    share = sum(sum(inside) / len(inside) for inside in tables.values()) / len(tables)
    print(f"{'the mean table, without itself':34} {100 * share:.1f} % of {len(tables)} tables")
    return share


def main():
    found = residuals(sys.argv[1])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS] + summarize(sys.argv[1], found))
    if "--check" in sys.argv:
        coverage(found)
        holds = 0.85 <= coverage_of_tables(found) <= 0.95
        stands = open(OUT).read() == text.getvalue()
        print("confidence: %d passed, %d failed" % (stands + holds, 2 - stands - holds))
        if not holds:
            print("confidence: 90 % intervals cover less than 85 % or more than 95 % of the mean table not used for them")
            sys.exit(1)
        if not stands:
            print("confidence: sim/predict/confidence.csv is not what the tables give: make confidence")
            sys.exit(1)
        return
    with open(OUT + ".new", "w") as file:
        file.write(text.getvalue())
    os.replace(OUT + ".new", OUT)


main()
