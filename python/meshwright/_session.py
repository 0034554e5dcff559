"""Open processes that answer, and the functions that ask them."""
from __future__ import annotations

import atexit
import contextlib
import difflib
import functools
import inspect
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union,
                    cast)

from . import _options
from ._answers import Answer, Picture, Prediction, Search, Table, answer_of
from ._arguments import PathLike, PlanLike, plan_words, row_words, rows_of, words_of
from ._bar import bar_of
from ._errors import InternalError, MeshwrightError, error_of, file_is

if TYPE_CHECKING:
    from typing_extensions import Unpack

_ASKED_AT_ONCE = 256  # questions on their way, so that neither end waits for the other with a full pipe
_MOST_PROCESSES = 8   # of one session; each holds programs of its own

Progress = Callable[[Dict[str, Any]], Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _find_program() -> str:
    """$MESHWRIGHT, the wheel's, `meshwright` on the path, or the build of the tree that this package lies in."""
    here = pathlib.Path(__file__).resolve()
    for program in (os.environ.get("MESHWRIGHT"), str(here.parent / "bin" / "meshwright"), shutil.which("meshwright"),
                    str(here.parents[2] / "build" / "meshwright")):
        if program and os.access(program, os.X_OK):
            return program
    raise FileNotFoundError("meshwright is not on the path: `pip install .` or `make install` puts it there, or "
                            "MESHWRIGHT names it")


def main() -> None:
    """The command `meshwright` of the wheel."""
    program = _find_program()
    os.execv(program, [program, *sys.argv[1:]])


def _takes(options: type) -> Callable[[_Function], _Function]:
    """Gives a function the arguments that the table of a command's options lists: help() and completion show them, and one
    that is misspelt is a TypeError."""
    types = options.__annotations__

    def of(function: _Function) -> _Function:
        @functools.wraps(function)
        def checked(*inputs: Any, **given: Any) -> Any:
            for name in given:
                if name not in known:
                    near = difflib.get_close_matches(name, known, 1)
                    raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'"
                                    + (f"; did you mean '{near[0]}'?" if near else ""))
            return function(*inputs, **given)

        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        said = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
                for name, kind in types.items()]
        known = [p.name for p in own] + list(types)
        setattr(checked, "__signature__", signature.replace(parameters=own + said))
        return cast(_Function, checked)

    return of


class _Process:
    """One `meshwright batch`."""

    def __init__(self, program: str, *options: str) -> None:
        self.folder = os.getcwd()
        self.popen = subprocess.Popen([program, "batch", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answers(self, questions: Sequence[Sequence[str]], told: Optional[Progress] = None) -> Iterator[Dict[str, Any]]:
        assert self.popen.stdout
        for first in range(0, len(questions), _ASKED_AT_ONCE):
            part = questions[first:first + _ASKED_AT_ONCE]
            writer = threading.Thread(target=self._write, args=(b"".join(json.dumps(list(words)).encode() + b"\n"
                                                                         for words in part),))
            writer.start()
            for _ in part:
                answer = self._line()
                while told and "progress" in answer:
                    told(answer)
                    answer = self._line()
                yield answer
            writer.join()

    def _line(self) -> Dict[str, Any]:
        assert self.popen.stdout
        line = self.popen.stdout.readline()
        if not line:
            raise InternalError(1, "meshwright ended before it had answered")
        return cast(Dict[str, Any], json.loads(line))

    def _write(self, lines: bytes) -> None:
        assert self.popen.stdin
        with contextlib.suppress(OSError):  # the reader sees the end
            self.popen.stdin.write(lines)
            self.popen.stdin.flush()

    def serves(self) -> bool:
        """It lives, and reads paths from where Python is."""
        return self.popen.poll() is None and self.folder == os.getcwd()

    def end(self) -> None:
        self.forget()
        self.popen.wait()

    def forget(self) -> None:
        for stream in (self.popen.stdin, self.popen.stdout):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()


def _forked(which: "weakref.ref[Session]") -> None:
    """The processes are the parent's: the copies of their pipes must not keep them open."""
    session = which()
    if session is None:
        return
    for process in session._idle:
        process.forget()
        process.popen.returncode = 0  # no child of this process, which would wait for it
    session._begin()


class Session:
    """Some `meshwright batch` that are kept open: one, and another for each thread that asks at the same time, up to
    `processes`. Threads and forked processes may share it; `with` closes it."""

    def __init__(self, program: Optional[str] = None, processes: Optional[int] = None) -> None:
        self._program = program
        self._most = processes or max(1, min(_MOST_PROCESSES, os.cpu_count() or 1))
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=functools.partial(_forked, weakref.ref(self)))

    def _begin(self) -> None:
        self._idle: List[_Process] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(self._most)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    @property
    def program(self) -> str:
        """The path of the program."""
        if self._program is None:
            self._program = _find_program()
        return self._program

    def close(self) -> None:
        """Ends the processes; the next question starts another."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()

    def _take(self) -> _Process:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.serves():
                    return process
                process.end()
        return _Process(self.program)

    def _exchange(self, questions: Sequence[Sequence[str]]) -> List[Dict[str, Any]]:
        with self._free:
            process = self._take()
            try:
                answers = list(process.answers(questions))
            except BaseException:  # an interrupt leaves answers on their way
                process.popen.kill()
                process.end()
                raise
            with self._lock:
                self._idle.append(process)
        return answers

    def ask(self, *words: str) -> Any:
        """The answer to one command line: `ask("mesh", "--topology", "v4-8", "--num-partitions", "2")`."""
        answer = self._exchange([words])[0]
        if answer["exit"] not in (0, 4):
            raise error_of(answer["exit"], answer["error"])
        return answer_of(answer["result"], words, self)

    def ask_many(self, questions: Iterable[Sequence[str]]) -> List[Any]:
        """Answers in order; a question that is refused has its exception in the place of its answer."""
        asked = [tuple(words) for words in questions]
        return [answer_of(a["result"], words, self) if a["exit"] in (0, 4) else error_of(a["exit"], a["error"])
                for words, a in zip(asked, self._exchange(asked))]

    # ---- the commands ----

    @_takes(_options.Predict)
    def predict(self, plan: PlanLike = None, **options: Unpack[_options.Predict]) -> Prediction:
        """What a plan costs. plan: a file, a dictionary of its keys, or an answer, whose plan (of a search: the best) it
        is; what is named stands over it. A plan that does not fit has `fits` False and `changes_that_fit`; it is no error.
        """
        return cast(Prediction, self.ask("predict", *plan_words(plan, options)))

    @_takes(_options.Tune)
    def tune(self, plan: PlanLike = None, *, progress: Union[None, bool, Progress] = None,
             **options: Unpack[_options.Tune]) -> Search:
        """The best plan of a space: what is given is fixed, a list of values is searched over. progress: True shows a bar of
        tqdm, the default where it is installed and somebody looks; a function is called with "done", "total",
        "best_tokens_per_s" and "gap_frac" up to ten times a second; what it raises ends the search."""
        words = ("tune", *plan_words(plan, options))
        if callable(progress):
            return cast(Search, self._tuned(words, progress))
        with bar_of(progress) as told:
            return cast(Search, self._tuned(words, told) if told else self.ask(*words))

    def _tuned(self, words: Sequence[str], told: Progress) -> Any:
        process = _Process(self.program, "--progress")
        try:
            answer = next(process.answers([words], told))
        except BaseException:
            process.popen.kill()
            raise
        finally:
            process.end()
        if answer["exit"] not in (0, 4):
            raise error_of(answer["exit"], answer["error"])
        return answer_of(answer["result"], tuple(words), self)

    def compare(self, first: PlanLike, second: PlanLike) -> Tuple[Prediction, Prediction]:
        """Both predictions, with their detail."""
        return self.predict(first, detail=True), self.predict(second, detail=True)

    @_takes(_options.Verify)
    def verify(self, plan: PlanLike = None, **options: Unpack[_options.Verify]) -> Answer:
        """What the real TPU compiler says of the plan, without a TPU, beside the prediction. It needs jax and libtpu, in
        the Python that `python=PATH` names; `time_limit=SECONDS` ends it. With `run=STEPS` the plan runs on its devices,
        which that Python has to find."""
        return cast(Answer, self.ask("verify", *plan_words(plan, options)))

    @_takes(_options.Collective)
    def collective(self, kind: str, **options: Unpack[_options.Collective]) -> Answer:
        """What one collective takes by itself: `collective("all_reduce", topology="v4:4x4x4",
        model_parallel_submesh=(4, 1, 1, 1), mesh_axis="model", bytes="8MiB")`. With network="simulated" message by message."""
        return cast(Answer, self.ask("collective", "--kind", kind, *plan_words(None, options)))

    @_takes(_options.Mesh)
    def mesh(self, **options: Unpack[_options.Mesh]) -> Answer:
        """Which device stands where: `mesh(topology="v4-512", num_partitions=8)`."""
        return cast(Answer, self.ask("mesh", *plan_words(None, options)))

    @_takes(_options.Rules)
    def rules(self, **options: Unpack[_options.Rules]) -> Answer:
        """How rules shard an array: `rules(logical_axis_rules="standard:1,1", axes="batch,embed")`."""
        return cast(Answer, self.ask("rules", *plan_words(None, options)))

    @_takes(_options.Params)
    def params(self, **options: Unpack[_options.Params]) -> Answer:
        """Every parameter of `model=…`: shape, logical axes, sharding, optimizer state."""
        return cast(Answer, self.ask("params", *plan_words(None, options)))

    def models(self) -> Table:
        """The models that are known by name."""
        return Table(self.ask("models")["models"])

    def topologies(self) -> Table:
        """The accelerator types that are known by name."""
        return Table(dict(kind, chip=chip["name"]) for chip in self.ask("topologies")["chips"] for kind in chip["accelerator_types"])

    @_takes(_options.Calibrate)
    def calibrate(self, *measured: PathLike, **options: Unpack[_options.Calibrate]) -> Answer:
        """Constants of a profile, fitted to measured steps: `calibrate("runs.csv", out="profile.json")`."""
        return cast(Answer, self.ask("calibrate", *[os.fspath(path) for path in measured], *words_of(options)))

    @_takes(_options.Export)
    def export(self, plan: PlanLike = None, *, format: str, path: Optional[PathLike] = None,
               **options: Unpack[_options.Export]) -> str:
        """The text that launches the plan, or has a compiler judge it: a run file of T5X ("gin"), JAX ("jax"), the whole
        step ("aot"), a Slurm job ("slurm"), TPU VMs ("gcloud"); kept in `path` if given."""
        text = str(self.ask("export", *plan_words(plan, options), "--format", format)["text"])
        if path is not None:
            with file_is("written", path), open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    @_takes(_options.Run)
    def run(self, plan: PlanLike = None, *, steps: int, in_process: bool = True,
            **options: Unpack[_options.Run]) -> Prediction:
        """Runs the plan on this machine, by default in one process; what was measured stands where predictions do."""
        words = plan_words(plan, {**options, "steps": steps, "in_process": in_process or None})
        done = subprocess.run([self.program, "run", *words, "--json"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode not in (0, 4):
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["the run failed"]
            raise error_of(done.returncode, said[-1].replace("meshwright: ", "", 1))
        return cast(Prediction, answer_of(json.loads(done.stdout), ("run", *words), self))

    def sweep(self, table: Any) -> Table:
        """Predicts every plan of a table: rows as dictionaries, a DataFrame, or a CSV file. A row that is refused says
        so in its column `error`; `frame()` of the result is a DataFrame, where pandas is."""
        rows = rows_of(table)
        keys = {*_options.Plan.__annotations__, "step", "inputs_length", "targets_length"}
        answers = self.ask_many([("predict", *row_words(row, sorted(keys & row.keys()))) for row in rows])
        return Table([dict(row, **_predicted(answer)) for row, answer in zip(rows, answers)])

    def plot(self, kind: str, *inputs: Any, path: Optional[PathLike] = None, **options: Any) -> Picture:
        """A chart of a file, of a plan or of an answer, as `meshwright plot KIND` draws it; kept in `path` if given."""
        with tempfile.TemporaryDirectory() as folder:
            words = []
            for number, thing in enumerate(inputs):
                if isinstance(thing, (str, os.PathLike)):
                    words.append(os.fspath(thing))
                    continue
                words.append(os.path.join(folder, f"input{number}.json"))
                with open(words[-1], "w", encoding="utf-8") as file:
                    json.dump(thing, file)
            out = os.fspath(path) if path else os.path.join(folder, "picture.svg")
            said = self.ask("plot", kind, *words, *words_of(options), "--out", out)
            with open(out, "rb") as picture:
                return Picture(said.get("title", ""), picture.read())


def _predicted(answer: Any) -> Dict[str, Any]:
    if isinstance(answer, MeshwrightError):
        return {"predicted_step_s": None, "predicted_tokens_per_s": None, "predicted_peak_memory_bytes": None,
                "predicted_fits": None, "error": answer.message}
    return {"predicted_step_s": answer["time"]["step_s"],
            "predicted_tokens_per_s": answer["throughput"]["tokens_per_s"],
            "predicted_peak_memory_bytes": answer["memory"]["peak_bytes"],
            "predicted_fits": int(answer["fits"]), "error": ""}


# ---- the session that the module's functions ask: a question starts its process, which ends with Python ----

_shared = Session()
atexit.register(_shared.close)


def session() -> Session:
    """The session of the module's functions."""
    return _shared


ask, ask_many, predict, tune, compare, verify = (_shared.ask, _shared.ask_many, _shared.predict, _shared.tune,
                                                 _shared.compare, _shared.verify)
collective, export, run, sweep, plot = _shared.collective, _shared.export, _shared.run, _shared.sweep, _shared.plot
mesh, rules, params, models, topologies, calibrate = (_shared.mesh, _shared.rules, _shared.params, _shared.models,
                                                      _shared.topologies, _shared.calibrate)
