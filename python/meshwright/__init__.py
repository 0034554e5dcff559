"""Meshwright from Python: does a partitioning plan fit in memory, how fast will it run, which plan is best.

    import meshwright as mw
    answer = mw.predict(model="t5_1_0_11B", topology="v4-512", model_parallel_submesh=(4, 2, 2, 1),
                        task_feature_lengths=(512, 512), batch_size=896, num_microbatches=4, optimizer="adamw")
    answer.fits, answer.tokens_per_s, answer["memory"]["peak_bytes"]

The names are those of the plan's JSON; what a command takes otherwise is given by its option's name (`detail=True`,
`top=10`). Questions go to a process that stays open, so that thousands a second are answered; threads that ask at the
same time have one each. What is refused raises an exception that says where and why. In a notebook an answer draws itself.

Only the standard library is needed; pandas and matplotlib are used where they are present.
"""
from ._answers import Answer, Picture, Prediction, Search, Table
from ._errors import InputError, InternalError, MeshwrightError, RunError, UsageError
from ._session import (Session, ask, ask_many, calibrate, collective, compare, export, mesh, models, params, plot,
                       predict, rules, run, session, sweep, topologies, tune, verify)

__all__ = [
    "Answer", "InputError", "InternalError", "MeshwrightError", "Picture", "Prediction", "RunError", "Search", "Session",
    "Table", "UsageError", "ask", "ask_many", "calibrate", "collective", "compare", "export", "mesh", "models", "params",
    "plot", "predict", "rules", "run", "session", "sweep", "topologies", "tune", "verify",
]
__version__ = "0.2.0"
