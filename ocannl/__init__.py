"""A compiler for neural-network training: tensor expressions, whose shapes are inferred, are compiled as
whole training steps.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ocannl.runtime.collector import collector_paused

# Modules live as long as the process: collections while they are made would free nothing.
with collector_paused():
    from ocannl import init
    from ocannl.dialects.ir.errors import (
        DeviceError,
        OcannlError,
        PrecisionError,
        ShapeError,
        SpecError,
        StateError,
        UninitializedError,
    )
    from ocannl.execute.context import Context, default_context
    from ocannl.execute.eager_engine import eager
    from ocannl.execute.inference import infer
    from ocannl.execute.plans.machines import Machine
    from ocannl.execute.plans.plan import Plan
    from ocannl.execute.plans.planning import plan
    from ocannl.execute.reports.debugging import debug, diff
    from ocannl.execute.reports.printing import print
    from ocannl.execute.routine import Routine
    from ocannl.execute.tuning import tune
    from ocannl.functions.derivatives import grad, hessian, jacobian, jvp, vjp
    from ocannl.functions.function import Function, function
    from ocannl.program.arguments.errors import ArgumentError, PositionError
    from ocannl.program.blocks.block import Block
    from ocannl.program.blocks.block_summary import Summary
    from ocannl.program.blocks.definitions import block, configurable
    from ocannl.program.checkpointing import checkpoint
    from ocannl.program.code import Code, block_comment, code, run
    from ocannl.program.derivatives import custom_gradient, stop_gradient
    from ocannl.program.indexing.along_ids import put_along_axis, take_along_axis
    from ocannl.program.indexing.gathers import gather, scatter
    from ocannl.program.leaves import arange as range
    from ocannl.program.leaves import constant, data, index, node, param
    from ocannl.program.loops.associative_scans import associative_scan
    from ocannl.program.loops.conditions import cond, while_loop
    from ocannl.program.loops.fixed_points import fixed_point
    from ocannl.program.loops.scan import scan
    from ocannl.program.memory.memory_modes import materialize, virtual
    from ocannl.program.memory.state import State, state
    from ocannl.program.meshes.mesh import Mesh
    from ocannl.program.meshes.sharding import shard
    from ocannl.program.meshes.stage_scope import stage
    from ocannl.program.mistakes.misuse import explain_all
    from ocannl.program.mistakes.other_functions import FUNCTIONS
    from ocannl.program.mistakes.other_names import missing
    from ocannl.program.parameters import params
    from ocannl.program.scopes import Scope, scope
    from ocannl.program.seeds import seed
    from ocannl.program.statements import accumulate, backprop, forward, set, zero_grads
    from ocannl.program.tensor import Dim, Index, Tensor, TensorLike, as_tensor
    from ocannl.program.tensor_functions.along_axis import (
        cummax,
        cummin,
        cumprod,
        cumsum,
        flip,
        logcumsumexp,
        norm,
        roll,
        unfold,
    )
    from ocannl.program.tensor_functions.creation import arange, eye, full, linspace, ones, tensor, zeros
    from ocannl.program.tensor_functions.einsums import (
        concat,
        einmax,
        einmin,
        einsum,
        outer_sum,
        stack,
        tropical,
    )
    from ocannl.program.tensor_functions.encoding import one_hot
    from ocannl.program.tensor_functions.grids import meshgrid
    from ocannl.program.tensor_functions.operators import OPERATORS, clip
    from ocannl.program.tensor_functions.pointwise_functions import pointwise
    from ocannl.program.tensor_functions.random_numbers import normal, uniform
    from ocannl.program.tensor_functions.rearranging import rearrange, reduce, repeat
    from ocannl.program.tensor_functions.reducers import (
        all,
        any,
        argmax,
        argmin,
        logsumexp,
        max,
        mean,
        min,
        prod,
        std,
        sum,
        var,
    )
    from ocannl.program.tensor_functions.sorting import argsort, sort, topk
    from ocannl.program.tensor_functions.threefry import (
        threefry4x32,
        to_uint4x32,
        uint4x32_to_prec_uniform,
        uint4x32_to_prec_uniform1,
    )
    from ocannl.program.tensor_functions.triangles import tril, triu
    from ocannl.program.types.casts import cast
    from ocannl.program.types.dtypes import bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, float64
    from ocannl.program.types.precision import precision
    from ocannl.program.types.shape_view import ShapeView
    from ocannl.program.types.shapes import RowSizes
    from ocannl.program.updates import add_update, updates
    from ocannl.program.watching import breakpoint, print_values
    from ocannl.program.why.why import why
    from ocannl.runtime.settings import config
    from ocannl.sessions.session import Session
    from ocannl.shipping.export import export
    from ocannl.version import installed_version
    from ocannl.viewer.show import view

__all__ = [
    "ArgumentError",
    "Block",
    "Code",
    "Context",
    "DeviceError",
    "Dim",
    "Function",
    "Index",
    "Machine",
    "Mesh",
    "OcannlError",
    "Plan",
    "PositionError",
    "PrecisionError",
    "Routine",
    "RowSizes",
    "Scope",
    "Session",
    "ShapeError",
    "ShapeView",
    "SpecError",
    "State",
    "StateError",
    "Summary",
    "Tensor",
    "TensorLike",
    "UninitializedError",
    "accumulate",
    "add_update",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "as_tensor",
    "associative_scan",
    "backprop",
    "bfloat16",
    "block",
    "block_comment",
    "breakpoint",
    "cast",
    "checkpoint",
    "clip",
    "code",
    "concat",
    "cond",
    "config",
    "configurable",
    "constant",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "custom_gradient",
    "data",
    "debug",
    "default_context",
    "diff",
    "eager",
    "einmax",
    "einmin",
    "einsum",
    "export",
    "eye",
    "fixed_point",
    "flip",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "forward",
    "full",
    "function",
    "gather",
    "grad",
    "hessian",
    "index",
    "infer",
    "init",
    "jacobian",
    "jvp",
    "linspace",
    "logcumsumexp",
    "logsumexp",
    "materialize",
    "max",
    "mean",
    "meshgrid",
    "min",
    "node",
    "norm",
    "normal",
    "one_hot",
    "ones",
    "outer_sum",
    "param",
    "params",
    "plan",
    "pointwise",
    "precision",
    "print",
    "print_values",
    "prod",
    "put_along_axis",
    "range",
    "rearrange",
    "reduce",
    "repeat",
    "roll",
    "run",
    "scan",
    "scatter",
    "scope",
    "seed",
    "set",
    "shard",
    "sort",
    "stack",
    "stage",
    "state",
    "std",
    "stop_gradient",
    "sum",
    "take_along_axis",
    "tensor",
    "threefry4x32",
    "to_uint4x32",
    "topk",
    "tril",
    "triu",
    "tropical",
    "tune",
    "uint4x32_to_prec_uniform",
    "uint4x32_to_prec_uniform1",
    "unfold",
    "uniform",
    "updates",
    "var",
    "view",
    "virtual",
    "vjp",
    "while_loop",
    "why",
    "zero_grads",
    "zeros",
]


explain_all(__all__, globals())

__version__: str
"""The version of this distribution; "0+unknown" where it is not installed."""


# Tracebacks name errors as they are imported.
for _error in (
    ArgumentError,
    DeviceError,
    OcannlError,
    PositionError,
    PrecisionError,
    ShapeError,
    SpecError,
    StateError,
    UninitializedError,
):
    _error.__module__ = __name__

# Modules that are written with this one, and loaded when they are asked for.
PARTS = ("interop", "models", "nn", "train")
# Functions that are, by their modules.
WRITTEN_WITH_IT = {"generate": "ocannl.models.generation"}


def __getattr__(name: str) -> Any:
    """Every operator of the scalar table is a function of this module: `oc.relu`, `oc.maximum`,
    `oc.where`, ...
    """
    if name == "__version__":
        # Looking it up reads files, which an import need not wait for.
        return installed_version()
    if name in PARTS:
        return import_module(f"ocannl.{name}")
    if name in WRITTEN_WITH_IT:
        return getattr(import_module(WRITTEN_WITH_IT[name]), name)
    operator = OPERATORS.get(name)
    if operator is None and name.startswith("_"):
        raise missing("module 'ocannl'", name, (), {})
    if operator is None:
        own = __dir__()
        apart = {other: f"{part}.{other}" for part in ("train", "nn") for other in _names_of(part)}
        others = {other: place for other, place in (apart | FUNCTIONS).items() if other not in own}
        raise missing("module 'ocannl'", name, own, others)
    return operator


def _names_of(part: str) -> Sequence[str]:
    """Those of a module that is written with this one; none while it is being loaded."""
    return getattr(import_module(f"ocannl.{part}"), "__all__", ())


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted([*own, "__version__", *__all__, *OPERATORS, *PARTS, *WRITTEN_WITH_IT])
