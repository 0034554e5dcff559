"""typed_library.py FOLDER PROGRAM: libmeshwright.so by ctypes, its structs read from the header that is installed beside it,
against what the program answers."""
import ctypes
import json
import re
import subprocess
import sys
import threading

folder, program = sys.argv[1:]
KINDS = {"double": ctypes.c_double, "int64_t": ctypes.c_int64, "const char": ctypes.c_char_p,
         "const struct mw_key": ctypes.c_void_p, "const struct mw_found": ctypes.c_void_p}
with open(folder + "/include/meshwright.h", encoding="utf-8") as file:
    header = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)


def struct(name):
    body = re.search(r"struct " + name + r" \{(.*?)\};", header, re.DOTALL).group(1)
    members = []
    for line in filter(None, (part.strip() for part in body.split(";"))):
        kind, names = re.match(r"(const struct \w+|const char|\w+) (.*)", line, re.DOTALL).groups()
        members += [(member.strip(" *\n"), KINDS[kind]) for member in names.split(",")]
    return type(name, (ctypes.Structure,), {"_fields_": members})


Key, Plan, Prediction = struct("mw_key"), struct("mw_plan"), struct("mw_prediction")
Progress, Search = struct("mw_progress"), struct("mw_search")
Told = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Progress))
Tuning = type("Tuning", (ctypes.Structure,), {"_fields_": [("objective", ctypes.c_char_p), ("top", ctypes.c_int64), (
    "headroom_frac", ctypes.c_double), ("progress", Told), ("where", ctypes.c_void_p)]})
Found = type("Found", (ctypes.Structure,), {"_fields_": [("plan", Plan), ("prediction", Prediction)]})
library = ctypes.CDLL(folder + "/lib/libmeshwright.so.1")
library.meshwright_open.restype = ctypes.c_void_p
library.meshwright_close.argtypes = [ctypes.c_void_p]
library.mw_predict.argtypes = [ctypes.c_void_p, ctypes.POINTER(Plan), ctypes.POINTER(Prediction)]
library.mw_tune.argtypes = [ctypes.c_void_p, ctypes.POINTER(Plan), ctypes.POINTER(Tuning), ctypes.POINTER(Search)]
library.mw_message.argtypes, library.mw_message.restype = [ctypes.c_void_p], ctypes.c_char_p
assert library.mw_abi_version() == int(re.search(r"MW_ABI_VERSION (\d+)", header).group(1))

PLANS = [
    dict(model=b"t5_1_0_11B", topology=b"v4-512", model_parallel_submesh=b"4,2,2,1", inputs_length=512, targets_length=512,
         batch_size=896, num_microbatches=4, optimizer=b"adamw"),
    dict(model=b"llama3_70b", topology=b"h100:8x8", software=b"megatron", targets_length=8192, batch_size=128,
         num_microbatches=32, num_partitions=8, pipeline_stages=4, others={"sequence_parallel": "1"}),
    dict(model=b"llama3_8b", topology=b"v5e-16", ici_mesh=b"data=4,model=4", targets_length=8192, batch_size=64),
]


def plan_of(given):
    others = [Key(name.encode(), value.encode()) for name, value in given.get("others", {}).items()]
    array = (Key * len(others))(*others)
    plan = Plan(**{name: value for name, value in given.items() if name != "others"},
                others=ctypes.cast(array, ctypes.c_void_p), other_count=len(others))
    return plan, array


def words_of(given):
    lengths = [str(given[key]) for key in ("inputs_length", "targets_length") if key in given]
    words = ["--task-feature-lengths", ",".join(lengths)]
    for name, value in {**given, **given.get("others", {})}.items():
        if name != "others" and not name.endswith("_length"):
            words += ["--" + name.replace("_", "-"), value.decode() if isinstance(value, bytes) else str(value)]
    return words


def same(answer, said):
    want = {**said["memory"], **said["time"], **said["throughput"], "fits": int(said["fits"]),
            "fits_probability_frac": said["fits_probability_frac"]}
    want["step_low_s"], want["step_high_s"] = said["time"]["step_interval_s"]
    want["peak_low_bytes"], want["peak_high_bytes"] = said["memory"]["peak_interval_bytes"]
    for name, _ in Prediction._fields_:
        assert getattr(answer, name) == want[name], (name, getattr(answer, name), want[name])


def check(said):
    session = library.meshwright_open()
    for _ in range(3):
        for given, (code, document) in zip(PLANS, said):
            (plan, _kept), answer = plan_of(given), Prediction()
            assert library.mw_predict(session, plan, answer) == code and library.mw_message(session) == b""
            same(answer, document)
    for wrong, words in ((dict(PLANS[0], num_microbatches=5), b"does not divide"), (dict(PLANS[0], model=None), b"model: is missing"),
                         (dict(PLANS[0], batch_size=-7), b"batch_size"), (dict(PLANS[0], others={"batch": "1"}), b'no key "batch"')):
        (plan, _kept), answer = plan_of(wrong), Prediction(step_s=7)
        assert library.mw_predict(session, plan, answer) == 3 and words in library.mw_message(session), library.mw_message(session)
        assert answer.step_s == 7
    library.meshwright_close(session)
    passed.append(True)


def tuned(session, given, stop_at, **how):
    """Plans as mw_tune finds them, what it told, and its exit code."""
    told, (plan, _kept), answer = [], plan_of(given), Search()
    tell = Told(lambda _, said: told.append((said.contents.what, said.contents.done, said.contents.best_tokens_per_s,
                                             said.contents.gap_frac)) or len(told) >= stop_at)
    code = library.mw_tune(session, plan, Tuning(progress=tell, **how), answer)
    found = ctypes.cast(answer.found, ctypes.POINTER(Found))
    return [found[i] for i in range(answer.found_count)], told, answer, code


def check_tune():
    session, open_ended = library.meshwright_open(), {"num_microbatches": 0, "model_parallel_submesh": None, "num_partitions": 0,
                                                      "pipeline_stages": 0}
    for given, top in ((PLANS[0], 3), (PLANS[1], 2)):
        asked = dict(given, **{key: value for key, value in open_ended.items() if key in given})
        said = subprocess.run([program, "tune", *[w for w in words_of({k: v for k, v in asked.items() if v}) if w], "--top", str(top),
                               "--json"], capture_output=True, check=False)
        document = json.loads(said.stdout)
        found, told, answer, code = tuned(session, asked, 1 << 30, top=top)
        assert code == said.returncode == 0 and len(found) == top == len(document["plans"]), library.mw_message(session)
        assert answer.space_count == document["search"]["space_count"] and answer.proven_optimal == 1 and answer.gap_frac == 0
        assert told and told[-1][0] == b"plans decided" and told[-1][2] > 0, told[-1:]
        for mine, its in zip(found, document["plans"]):
            assert mine.prediction.step_s == its["prediction"]["time"]["step_s"]
            assert mine.plan.num_microbatches == its["plan"].get("num_microbatches", 0)
            again = Prediction()
            assert library.mw_predict(library.meshwright_open(), mine.plan, again) == 0 and again.step_s == mine.prediction.step_s
    found, told, answer, code = tuned(session, dict(PLANS[0], num_microbatches=0, model_parallel_submesh=None), 5)
    assert len(told) == 5 and (answer.proven_optimal == 0 or not found)
    found, _, _, code = tuned(session, dict(PLANS[0], topology=b"v4-8", model_parallel_submesh=None), 1 << 30)
    assert code == 4 and not found, code
    _, _, _, code = tuned(session, dict(PLANS[0], others={"remat_policy": "none,never"}), 1 << 30)
    assert code == 3 and b"never" in library.mw_message(session), library.mw_message(session)
    library.meshwright_close(session)


asked = [subprocess.run([program, "predict", *words_of(given), "--json"], capture_output=True, check=False) for given in PLANS]
for done in asked:
    assert done.stdout, done.stderr
answers, passed = [(done.returncode, json.loads(done.stdout)) for done in asked], []
assert sorted({code for code, _ in answers}) == [0, 4], [code for code, _ in answers]
threads = [threading.Thread(target=check, args=(answers,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
check_tune()
sys.exit(len(passed) != 4)
