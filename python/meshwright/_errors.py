"""What is refused, as exceptions."""
from __future__ import annotations

import contextlib
import os
from typing import Iterator, Union


class MeshwrightError(Exception):
    """A question that was not answered.

    exit: the program's exit code. message: all of it. place: the words before the first colon that are no sentence
    ("plan.json", "batch_size"), or "" where the message names none.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.exit = code
        self.message = message
        head, colon, _ = message.partition(": ")
        place = head if colon and " " not in head else ""
        self.place = place[2:].replace("-", "_") if place.startswith("--") else place


class UsageError(MeshwrightError):
    """The question itself: an unknown command, option, or a missing argument (exit 2)."""


class InputError(MeshwrightError):
    """A value that cannot be accepted (exit 3)."""


class RunError(MeshwrightError):
    """The run failed, or was stopped (exit 5 and 6)."""


class InternalError(MeshwrightError):
    """The program failed (exit 1), or went away."""


@contextlib.contextmanager
def file_is(done: str, path: Union[str, "os.PathLike[str]"]) -> Iterator[None]:
    """What the system says of a file, in the program's words; done: "read" or "written"."""
    try:
        yield
    except OSError as why:
        raise InputError(3, f"{os.fspath(path)}: cannot be {done}: {why.strerror}") from why


def error_of(code: int, message: str) -> MeshwrightError:
    kinds = {2: UsageError, 3: InputError, 5: RunError, 6: RunError}
    return kinds.get(code, InternalError)(code, message)
