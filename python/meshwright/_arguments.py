"""From Python's values to the words of a command line."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from ._errors import InputError, file_is

PathLike = Union[str, "os.PathLike[str]"]
PlanLike = Union[None, PathLike, Mapping[str, Any]]

# Values of these keys hold commas themselves: several of them are joined by semicolons.
_LISTS_OF_LISTS = {"model_parallel_submesh", "logical_axis_rules", "topology", "model"}
_NUMBER_LISTS = {"model_parallel_submesh"}
_DOCUMENTS = {"params_axes_names_override", "adafactor"}


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return repr(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _pairs(value: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={_scalar(size)}" for name, size in value.items())


def word(key: str, value: Any) -> str:
    """The value of an option as one word: (4, 2, 2, 1) is "4,2,2,1", {"data": 2} is "data=2"."""
    if key in _DOCUMENTS and not isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        if key == "task_feature_lengths":
            return ",".join(_scalar(value[name]) for name in ("inputs", "targets") if name in value)
        return _pairs(value)
    if isinstance(value, (list, tuple)):
        if key == "logical_axis_rules" and value and not isinstance(value[0], str):
            return json.dumps([list(rule) for rule in value])
        nested = bool(value) and isinstance(value[0], (list, tuple))
        if key in _LISTS_OF_LISTS and (nested or key not in _NUMBER_LISTS):
            return ";".join(word(key, item) for item in value)
        return ",".join(_scalar(item) for item in value)
    return _scalar(value)


def words_of(options: Mapping[str, Any]) -> List[str]:
    """batch_size=8, detail=True becomes --batch-size 8 --detail; None and False are left out."""
    words: List[str] = []
    for key, value in options.items():
        option = "--" + key.strip("_").replace("_", "-")
        if value is None or value is False:
            continue
        words.append(option)
        if value is not True:
            words.append(word(key.strip("_"), value))
    return words


# Keys whose value is 0 or 1: in Python they may be False and True.
_SWITCHES = {"sequence_parallel", "split_physical_axes", "contiguous_submeshes"}


def plan_words(plan: PlanLike, options: Mapping[str, Any]) -> List[str]:
    """A plan's file, a dictionary of its keys, or an answer's plan, and what is given over it."""
    from ._answers import Answer
    words: List[str] = []
    given: Dict[str, Any] = {}
    if isinstance(plan, Answer):
        found = plan.plan()
        if found is None:
            raise InputError(3, "the answer is of no plan that could be changed")
        given.update(found)
    elif isinstance(plan, Mapping):
        given.update(plan)
    elif plan is not None:
        words.append(os.fspath(plan))
    given.update(options)
    for key in _SWITCHES & given.keys():
        if isinstance(given[key], bool):
            given[key] = int(given[key])
    return words + words_of(given)


def csv_rows(path: PathLike) -> List[Dict[str, Any]]:
    import csv

    with file_is("read", path), open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rows_of(table: Any) -> List[Dict[str, Any]]:
    """Rows of a DataFrame, of a CSV file, or as they are."""
    if isinstance(table, (str, os.PathLike)):
        return csv_rows(table)
    if hasattr(table, "to_dict") and hasattr(table, "columns"):
        return [{k: v for k, v in row.items() if v is not None and v == v} for row in table.to_dict("records")]
    return [dict(row) for row in table]


_ROW_LENGTHS = ("inputs_length", "targets_length")


def row_words(row: Mapping[str, Any], keys: Sequence[str]) -> List[str]:
    """A row of a sweep as a question: the plan's columns, of which an empty cell is the default."""
    given = {k: row[k] for k in keys if row.get(k) not in (None, "") and k not in _ROW_LENGTHS}
    lengths = [str(row[k]) for k in _ROW_LENGTHS if row.get(k) not in (None, "")]
    if lengths:
        given["task_feature_lengths"] = ",".join(lengths)
    return plan_words(None, given)


def optional(module: str) -> Optional[Any]:
    """The module, or None where it is not installed."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        return None
