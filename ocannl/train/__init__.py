"""Training: recipes and optimizers, schedules of learning rates, data and loops."""

from ocannl.program.misuse import explain_all
from ocannl.train.checkpoints import Checkpoint, Checkpoints
from ocannl.train.clipping import clip_grad_norm, clip_grad_value
from ocannl.train.data import Batches, batches
from ocannl.train.gradients import forward_once, grad_update, update_once
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

__all__ = [
    "Batches",
    "Checkpoint",
    "Checkpoints",
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
    "exponential",
    "forward_once",
    "grad_update",
    "lamb",
    "linear",
    "lion",
    "muon",
    "nadam",
    "one_cycle",
    "plateau",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sgd_one",
    "sgd_update",
    "step",
    "update_once",
    "warmup_cosine",
]

explain_all(__all__, globals())
