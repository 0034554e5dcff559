"""One open process that answers, and the functions that ask it."""
from __future__ import annotations

import atexit
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._answers import Answer, Picture, Prediction, Search, Table, answer_of
from ._arguments import PlanLike, plan_words, row_words, rows_of, words_of
from ._errors import InternalError, MeshwrightError, UsageError, error_of, file_is

_ASKED_AT_ONCE = 256  # questions on their way, so that neither end waits for the other with a full pipe


def _find_program() -> str:
    """$MESHWRIGHT, `meshwright` on the path, or the build of the tree that this package lies in."""
    built = pathlib.Path(__file__).resolve().parents[2] / "build" / "meshwright"
    for program in (os.environ.get("MESHWRIGHT"), shutil.which("meshwright"), str(built)):
        if program and os.access(program, os.X_OK):
            return program
    raise FileNotFoundError("meshwright is not on the path: `make install` puts it there, or MESHWRIGHT names it")


class Session:
    """A `meshwright batch` that is kept open. Threads may share it; `with` closes it."""

    def __init__(self, program: Optional[str] = None) -> None:
        self.program = program or _find_program()
        self._process: Optional[subprocess.Popen] = None
        self._folder = ""
        self._lock = threading.Lock()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process; the next question starts another."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            try:
                stream.close()
            except OSError:
                pass
        process.wait()

    def _open(self) -> subprocess.Popen:
        folder = os.getcwd()
        if self._process is not None and self._folder != folder:
            self._process.stdin.close()  # paths are read from where Python is
            self._process.stdout.close()
            self._process.wait()
            self._process = None
        if self._process is None or self._process.poll() is not None:
            self._folder = folder
            self._process = subprocess.Popen([self.program, "batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._process

    def _exchange(self, questions: Sequence[Sequence[str]]) -> List[dict]:
        with self._lock:
            process = self._open()
            answers: List[dict] = []
            try:
                for first in range(0, len(questions), _ASKED_AT_ONCE):
                    part = questions[first:first + _ASKED_AT_ONCE]
                    lines = b"".join(json.dumps(list(words)).encode() + b"\n" for words in part)
                    writer = threading.Thread(target=self._write, args=(process, lines))
                    writer.start()
                    for _ in part:
                        line = process.stdout.readline()
                        if not line:
                            raise InternalError(1, "meshwright ended before it had answered")
                        answers.append(json.loads(line))
                    writer.join()
            except InternalError:
                self._process = None
                process.kill()
                process.wait()
                raise
        return answers

    @staticmethod
    def _write(process: subprocess.Popen, lines: bytes) -> None:
        try:
            process.stdin.write(lines)
            process.stdin.flush()
        except OSError:
            pass  # the reader sees the end

    def ask(self, *words: str) -> Any:
        """The answer to one command line: `ask("mesh", "--topology", "v4-8", "--num-partitions", "2")`."""
        answer = self._exchange([words])[0]
        if answer["exit"] not in (0, 4):
            raise error_of(answer["exit"], answer["error"])
        return answer_of(answer["result"], tuple(words), self)

    def ask_many(self, questions: Iterable[Sequence[str]]) -> List[Union[Answer, MeshwrightError, Any]]:
        """Answers in order; a question that is refused has its exception in the place of its answer."""
        asked = [tuple(words) for words in questions]
        return [answer_of(a["result"], words, self) if a["exit"] in (0, 4) else error_of(a["exit"], a["error"])
                for words, a in zip(asked, self._exchange(asked))]

    # ---- the commands ----

    def predict(self, plan: PlanLike = None, **options: Any) -> Prediction:
        """What a plan costs. A plan that does not fit has `fits` False and `changes_that_fit`; it is no error."""
        return self.ask("predict", *plan_words(plan, options))

    def tune(self, plan: PlanLike = None, **options: Any) -> Search:
        """The best plan of a space: what is given is fixed, a list of values is searched over."""
        return self.ask("tune", *plan_words(plan, options))

    def compare(self, first: PlanLike, second: PlanLike) -> Tuple[Prediction, Prediction]:
        """Both predictions, with their detail."""
        return self.predict(first, detail=True), self.predict(second, detail=True)

    def verify(self, plan: PlanLike = None, **options: Any) -> Answer:
        """What the real TPU compiler says of the plan, without a TPU, beside the prediction. It needs jax and libtpu, in
        the Python that `python=PATH` names; `time_limit=SECONDS` ends it. With `run=STEPS` the plan runs on its devices,
        which that Python has to find."""
        return self.ask("verify", *plan_words(plan, options))

    def collective(self, kind: str, **options: Any) -> Answer:
        """What one collective takes by itself: `collective("all_reduce", topology="v4:4x4x4",
        model_parallel_submesh=(4, 1, 1, 1), mesh_axis="model", bytes="8MiB")`. With network="simulated" message by message."""
        return self.ask("collective", "--kind", kind, *plan_words(None, options))

    def export(self, plan: PlanLike = None, *, format: str, path: Union[None, str, "os.PathLike[str]"] = None,
               **options: Any) -> str:
        """The text that launches the plan, or has a compiler judge it: a run file of T5X ("gin"), JAX ("jax"), the whole
        step ("aot"), a Slurm job ("slurm"), TPU VMs ("gcloud"); kept in `path` if given."""
        text = self.ask("export", *plan_words(plan, options), "--format", format)["text"]
        if path is not None:
            with file_is("written", path), open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def run(self, plan: PlanLike = None, *, steps: int, in_process: bool = True, **options: Any) -> Prediction:
        """Runs the plan on this machine, by default in one process; what was measured stands where predictions do."""
        words = plan_words(plan, dict(options, steps=steps, in_process=in_process or None))
        done = subprocess.run([self.program, "run", *words, "--json"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode not in (0, 4):
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["the run failed"]
            raise error_of(done.returncode, said[-1].replace("meshwright: ", "", 1))
        return answer_of(json.loads(done.stdout), ("run", *words), self)

    def sweep(self, table: Any) -> Table:
        """Predicts every plan of a table: rows as dictionaries, a DataFrame, or a CSV file. A row that is refused says
        so in its column `error`; `frame()` of the result is a DataFrame, where pandas is."""
        rows = rows_of(table)
        keys = set(_plan_columns(self))
        answers = self.ask_many([("predict", *row_words(row, sorted(keys & row.keys()))) for row in rows])
        return Table([dict(row, **_predicted(answer)) for row, answer in zip(rows, answers)])

    def plot(self, kind: str, *inputs: Any, path: Union[None, str, "os.PathLike[str]"] = None, **options: Any) -> Picture:
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
            with open(out, "rb") as file:
                return Picture(said.get("title", ""), file.read())


def _plan_columns(of: Session) -> List[str]:
    """Columns of a sweep that are keys of a plan: the options of `predict` that take a value, which stands one blank
    or, where it is long, one line behind them, and the two lengths."""
    words = re.findall(r"^ +--([a-z0-9-]+)(?: |\n {6})\S", str(of.ask("predict", "--help", "all")), re.MULTILINE)
    return [word.replace("-", "_") for word in words] + ["inputs_length", "targets_length"]


def _predicted(answer: Any) -> dict:
    if isinstance(answer, MeshwrightError):
        return {"predicted_step_s": None, "predicted_tokens_per_s": None, "predicted_peak_memory_bytes": None,
                "predicted_fits": None, "error": answer.message}
    return {"predicted_step_s": answer["time"]["step_s"],
            "predicted_tokens_per_s": answer["throughput"]["tokens_per_s"],
            "predicted_peak_memory_bytes": answer["memory"]["peak_bytes"],
            "predicted_fits": int(answer["fits"]), "error": ""}


# ---- the session that the functions share ----

_shared: Optional[Session] = None
_shared_lock = threading.Lock()


def session() -> Session:
    """The process that the module's functions ask; it is started by the first question, and ends with Python."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Session()
            atexit.register(_shared.close)
        return _shared


def ask(*words: str) -> Any:
    """See Session.ask."""
    return session().ask(*words)


def ask_many(questions: Iterable[Sequence[str]]) -> List[Any]:
    """See Session.ask_many."""
    return session().ask_many(questions)


def predict(plan: PlanLike = None, **options: Any) -> Prediction:
    """See Session.predict."""
    return session().predict(plan, **options)


def tune(plan: PlanLike = None, **options: Any) -> Search:
    """See Session.tune."""
    return session().tune(plan, **options)


def compare(first: PlanLike, second: PlanLike) -> Tuple[Prediction, Prediction]:
    """See Session.compare."""
    return session().compare(first, second)


def verify(plan: PlanLike = None, **options: Any) -> Answer:
    """See Session.verify."""
    return session().verify(plan, **options)


def collective(kind: str, **options: Any) -> Answer:
    """See Session.collective."""
    return session().collective(kind, **options)


def export(plan: PlanLike = None, *, format: str, path: Union[None, str, "os.PathLike[str]"] = None, **options: Any) -> str:
    """See Session.export."""
    return session().export(plan, format=format, path=path, **options)


def run(plan: PlanLike = None, *, steps: int, in_process: bool = True, **options: Any) -> Prediction:
    """See Session.run."""
    return session().run(plan, steps=steps, in_process=in_process, **options)


def sweep(table: Any) -> Table:
    """See Session.sweep."""
    return session().sweep(table)


def plot(kind: str, *inputs: Any, path: Union[None, str, "os.PathLike[str]"] = None, **options: Any) -> Picture:
    """See Session.plot."""
    return session().plot(kind, *inputs, path=path, **options)
