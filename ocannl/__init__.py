"""OCANNL compiles neural-network training: tensor expressions with few shapes, compiled as whole update steps."""

from ocannl import init
from ocannl.code import Code, accumulate, backprop, block_comment, code, forward, run, set, zero_grads
from ocannl.context import Context
from ocannl.dialects.errors import DeviceError, OcannlError, ShapeError, SpecError, UninitializedError
from ocannl.functions import OPERATORS
from ocannl.inference import infer
from ocannl.leaves import arange as range
from ocannl.leaves import constant, data, index, node, param
from ocannl.parameters import params
from ocannl.routine import Routine
from ocannl.scopes import block, scope
from ocannl.shapes import Dim, ShapeView
from ocannl.tensor import Index, Tensor, TensorLike, einmax, einsum, outer_sum, stop_gradient, tropical

globals().update(OPERATORS)
