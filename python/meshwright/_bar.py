"""The bar of a search: tqdm's, where it is installed and somebody looks."""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional

from ._arguments import optional


def _somebody_looks() -> bool:
    return "ipykernel" in sys.modules or bool(getattr(sys.stderr, "isatty", bool)())


@contextlib.contextmanager
def bar_of(wish: Optional[bool]) -> Iterator[Optional[Callable[[Dict[str, Any]], None]]]:
    """What a search tells is shown, from its first word on; None: it is not. wish: True, False, or None for where somebody
    looks."""
    kind = "tqdm.auto" if optional("ipywidgets") else "tqdm"  # in a notebook the first warns without them
    tqdm = optional(kind) if wish or (wish is None and _somebody_looks()) else None
    if tqdm is None and wish:
        raise ImportError("progress=True needs tqdm; a function in its place needs nothing")
    bars: List[Any] = []

    def told(said: Dict[str, Any]) -> None:
        if tqdm is not None and not bars:
            bars.append(tqdm.tqdm(unit=" plans", leave=False))
        bars[0].total = said["total"] or None
        bars[0].n = said["done"]
        if said["best_tokens_per_s"]:
            gap = f", at most {100 * said['gap_frac']:.1f} % below the optimum" if said["gap_frac"] < 1 else ""
            bars[0].set_postfix_str(f"best {said['best_tokens_per_s']:,.0f} tokens/s{gap}", refresh=False)
        bars[0].refresh()

    try:
        yield told if tqdm else None
    finally:
        for bar in bars:
            bar.close()
