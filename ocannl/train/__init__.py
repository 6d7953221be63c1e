"""Training: recipes and optimizers, schedules of learning rates, data and loops."""

from typing import TYPE_CHECKING

from ocannl.program.mistakes.misuse import explain_all
from ocannl.program.mistakes.other_names import OF_TRAIN, missing
from ocannl.train.checkpoints import Checkpoint, Checkpoints
from ocannl.train.clipping import clip_grad_norm, clip_grad_value
from ocannl.train.dashboard import dashboard
from ocannl.train.data import Batches, batches
from ocannl.train.data_parallel import DataParallel, data_parallel
from ocannl.train.fit import fit
from ocannl.train.gradients import forward_once, grad_update, update_once
from ocannl.train.logs import Log, csv, progress, tensorboard
from ocannl.train.optimizer import Optimizer
from ocannl.train.optimizers import (
    adadelta,
    adagrad,
    adam,
    adamw,
    lamb,
    lion,
    muon,
    nadam,
    radam,
    rmsprop,
    rprop,
    sgd,
)
from ocannl.train.plateau import Plateau, plateau
from ocannl.train.plotting import plot
from ocannl.train.recipes import adam_one, adam_update, sgd_one, sgd_update
from ocannl.train.schedules import (
    Schedule,
    constant,
    cosine,
    exponential,
    linear,
    one_cycle,
    step,
    warmup_cosine,
)
from ocannl.train.shards import gather, shard_along
from ocannl.train.stopping import EarlyStopping, early_stopping

__all__ = [
    "Batches",
    "Checkpoint",
    "Checkpoints",
    "DataParallel",
    "EarlyStopping",
    "Log",
    "Optimizer",
    "Plateau",
    "Schedule",
    "adadelta",
    "adagrad",
    "adam",
    "adam_one",
    "adam_update",
    "adamw",
    "batches",
    "clip_grad_norm",
    "clip_grad_value",
    "constant",
    "cosine",
    "csv",
    "dashboard",
    "data_parallel",
    "early_stopping",
    "exponential",
    "fit",
    "forward_once",
    "gather",
    "grad_update",
    "lamb",
    "linear",
    "lion",
    "muon",
    "nadam",
    "one_cycle",
    "plateau",
    "plot",
    "progress",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sgd_one",
    "sgd_update",
    "shard_along",
    "step",
    "tensorboard",
    "update_once",
    "warmup_cosine",
]

explain_all(__all__, globals())


if not TYPE_CHECKING:  # for a type checker there is nothing else

    def __getattr__(name: str) -> object:
        raise missing("module 'ocannl.train'", name, __all__, OF_TRAIN)


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *__all__])
