"""Answers: the program's JSON, with names for what is asked for most, and a picture of themselves."""
from __future__ import annotations

import html
import os
import tempfile
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ._arguments import optional
from ._errors import file_is

if TYPE_CHECKING:
    from ._session import Session

_FRAME = ('<iframe srcdoc="{}" style="width:100%;height:{}px;border:1px solid #8884;border-radius:6px" '
          'sandbox="allow-scripts" title="{}"></iframe>')


def _flat(value: Any, name: str) -> Iterator[Tuple[str, Any]]:
    """Members that are no lists, by their path: time.step_s."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _flat(member, f"{name}.{key}" if name else key)
    elif not isinstance(value, list):
        yield name, value


class Answer(Dict[str, Any]):
    """A JSON object; it pickles, copies and compares as one. `words` is the question; in a notebook it shows the page of
    `--out answer.html`."""

    words: Tuple[str, ...] = ()
    _asked: Optional["Session"] = None

    def __getstate__(self) -> Dict[str, Any]:
        return {"words": self.words}

    def _session(self) -> "Session":
        from ._session import session
        return self._asked or session()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {' '.join(self.words[:2])}: {', '.join(self)}>"

    def plan(self) -> Optional[Dict[str, Any]]:
        """The plan that it is of; predict and all others take the answer itself, too."""
        found = self.get("plan")
        return dict(found) if found else None

    def frame(self) -> Any:
        """A DataFrame of one row, its columns named as time.step_s; the row in a list where there is no pandas."""
        return Table([dict(_flat(self, ""))]).frame()

    def page(self) -> str:
        """The answer as a self-contained HTML page; "" where the command has none."""
        if self.words[:1] not in (("predict",), ("tune",)):
            return ""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "answer.html")
            kept = [w for w in self.words if w != "--json"]
            self._session()._exchange([(*kept, "--out", path)])
            try:
                with open(path, encoding="utf-8") as file:
                    return file.read()
            except OSError:
                return ""

    def _repr_html_(self) -> Optional[str]:
        page = self.page()
        return _FRAME.format(html.escape(page, quote=True), 760, "Meshwright's answer") if page else None


class Prediction(Answer):
    """What a plan costs, or what a run measured."""

    def __repr__(self) -> str:
        plan, gib = self.plan() or {}, 1 << 30
        return (f"<{plan.get('model')} on {plan.get('topology')}: {self.step_s:.4g} s a step, {self.tokens_per_s:,.0f} tokens/s, "
                f"{self.peak_bytes / gib:.2f} of {self.available_bytes / gib:.2f} GiB, {self.verdict.replace('_', ' ')}>")

    @property
    def fits(self) -> bool:
        """Of the prediction itself; the verdict goes by its likelihood."""
        return bool(self["fits"])

    @property
    def verdict(self) -> str:
        """fits, tight, probably_does_not_fit, probably_fits or does_not_fit; of a run, and of what an earlier program saved, by `fits`."""
        return str(self.get("verdict") or ("fits" if self.fits else "does_not_fit"))

    @property
    def step_s(self) -> float:
        return float(self["time"]["step_s"])

    @property
    def tokens_per_s(self) -> float:
        """Target tokens, as T5X counts them."""
        return float(self["throughput"]["tokens_per_s"])

    @property
    def mfu_frac(self) -> float:
        return float(self["throughput"]["mfu_frac"])

    @property
    def peak_bytes(self) -> int:
        """Of one device."""
        return int(self["memory"]["peak_bytes"])

    @property
    def capacity_bytes(self) -> int:
        return int(self["memory"]["capacity_bytes"])

    @property
    def available_bytes(self) -> int:
        """Of the capacity, what a plan may fill."""
        return int(self["memory"].get("available_bytes", self.capacity_bytes))

    def plot(self, kind: str = "memory") -> "Picture":
        """A chart of it: memory, time, operations, roofline. The question is asked again with its detail."""
        document: Mapping[str, Any] = self
        if "timeline" not in self and self.words[:1] == ("predict",):
            document = self._session().ask(*self.words, "--detail")
        return self._session().plot(kind, dict(document))


class Search(Answer):
    """What `tune` found."""

    def __repr__(self) -> str:
        if not self.plans:
            return "<Search: no plan fits>"
        return f"<Search: {len(self.plans)} plans, the best {answer_of(self.plans[0]['prediction'], (), self._session())!r}>"

    @property
    def best(self) -> Optional[Dict[str, Any]]:
        """The best plan, to be given to predict; None: nothing fits."""
        found = self["best"]
        return dict(found) if found else None

    def plan(self) -> Optional[Dict[str, Any]]:
        """The best one."""
        return self.best

    @property
    def plans(self) -> List[Dict[str, Any]]:
        """The ranked plans, each {"plan": …, "prediction": …}."""
        return list(self["plans"])

    @property
    def proven_optimal(self) -> bool:
        return bool(self["search"]["proven_optimal"])

    def table(self) -> "Table":
        """The ranked plans as rows."""
        return Table([dict(p["plan"], step_s=p["prediction"]["time"]["step_s"],
                           tokens_per_s=p["prediction"]["throughput"]["tokens_per_s"],
                           peak_bytes=p["prediction"]["memory"]["peak_bytes"]) for p in self.plans])

    def frame(self) -> Any:
        """Its table as a DataFrame; rows where there is no pandas."""
        return self.table().frame()


class Table(List[Dict[str, Any]]):
    """Rows as dictionaries, in order."""

    def columns(self) -> List[str]:
        """All of them, in the order in which rows have them."""
        return list(dict.fromkeys(key for row in self for key in row))

    def frame(self) -> Any:
        """A pandas DataFrame; the rows themselves where there is no pandas."""
        pandas = optional("pandas")
        if pandas is None:
            return list(self)
        return pandas.DataFrame(list(self), columns=self.columns())

    def plot(self, x: str = "measured_tokens_per_s", y: str = "predicted_tokens_per_s", ax: Any = None) -> Any:
        """Two columns against each other, with matplotlib; returns the axes."""
        pyplot = optional("matplotlib.pyplot")
        if pyplot is None:
            raise ImportError("matplotlib is not installed; `meshwright plot` draws without it")
        points = [(float(r[x]), float(r[y])) for r in self if r.get(x) not in (None, "") and r.get(y) not in (None, "")]
        ax = ax or pyplot.subplots()[1]
        ax.scatter([p[0] for p in points], [p[1] for p in points], s=14)
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        return ax

    def _repr_html_(self) -> str:
        columns, shown = self.columns(), self[:200]
        head = "".join(f"<th>{html.escape(str(c))}</th>" for c in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(str(r.get(c, '') if r.get(c) is not None else ''))}</td>"
                                        for c in columns) + "</tr>" for r in shown)
        more = f"<p>{len(self) - len(shown)} more rows</p>" if len(self) > len(shown) else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


class Picture:
    """A chart. `data` is the file; an SVG shows itself in a notebook."""

    def __init__(self, title: str, data: bytes) -> None:
        self.title = title
        self.data = data

    def _repr_svg_(self) -> Optional[str]:
        return self.data.decode() if self.data.lstrip().startswith(b"<") else None

    def _repr_png_(self) -> Optional[bytes]:
        return self.data if self.data.startswith(b"\x89PNG") else None

    def save(self, path: str) -> None:
        with file_is("written", path), open(path, "wb") as file:
            file.write(self.data)


def answer_of(result: Any, words: Tuple[str, ...], session: "Session") -> Any:
    """The result as the class that fits it."""
    if not isinstance(result, dict):
        return result
    kind = Prediction if "time" in result and "memory" in result else Search if "search" in result else Answer
    answer = kind(result)
    answer.words, answer._asked = words, session
    return answer
