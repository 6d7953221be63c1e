"""Code that computes a loss and its gradients, and runs of it."""

from __future__ import annotations

import ocannl as oc
from ocannl.program.mistakes.one_number import warn_of_sum


def grad_update(loss: oc.Tensor) -> oc.Code:
    """Code that computes a loss and the gradients of everything that it depends on, and then runs the updates
    that blocks have added to it (such as running statistics). Gradients are set, not added to.

    The gradient of the loss is 1 everywhere: of one that is known to be more than one number, gradients are
    those of their sum, with a warning.
    """
    warn_of_sum(loss.ir_value)
    return scaled_gradients(loss, 1)


def scaled_gradients(loss: oc.Tensor, scale: float) -> oc.Code:
    """`grad_update` of a loss times a number."""
    forward = oc.forward(loss)
    gradients = loss.zero_grads + oc.set(loss.grad, scale) + loss.backprop
    # Updates may write what the loss was computed from: gradients are those of before.
    code = forward + gradients + oc.updates(loss)
    return oc.block_comment(f"{loss.label} gradient update", code)


def forward_once(ctx: oc.Context, tensor: oc.TensorLike, *, seed: int = 1) -> oc.Routine:
    """Initializes the parameters that a tensor depends on, where they are not yet, and computes it once."""
    return _run_once(ctx, tensor, oc.forward(tensor), seed)


def update_once(ctx: oc.Context, loss: oc.Tensor, *, seed: int = 1) -> oc.Routine:
    """Initializes parameters where they are not yet, and computes a loss and its gradients once."""
    return _run_once(ctx, loss, grad_update(loss), seed)


def _run_once(ctx: oc.Context, tensor: oc.TensorLike, code: oc.Code, seed: int) -> oc.Routine:
    routine = ctx.compile(code)
    ctx.init_params(tensor, seed=seed)
    routine()
    return routine
