"""Training recipes, written with the public API alone: to be read, and copied where they do not fit."""

from __future__ import annotations

import ocannl as oc
from ocannl.program.misuse import explain_all

__all__ = ["adam_one", "adam_update", "forward_once", "grad_update", "sgd_one", "sgd_update", "update_once"]


def grad_update(loss: oc.Tensor) -> oc.Code:
    """Code that computes a loss, runs the updates that blocks have added to it (such as running statistics),
    and computes the gradients of everything that it depends on. Gradients are set, not added to.
    """
    value = oc.forward(loss) + oc.updates(loss)
    gradients = loss.zero_grads + oc.set(loss.grad, 1) + loss.backprop
    return oc.block_comment(f"{loss.label} gradient update", value + gradients)


def sgd_update(
    loss: oc.Tensor,
    *,
    learning_rate: oc.TensorLike,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> oc.Code:
    """Code that updates every parameter that a loss has derivatives for, by stochastic gradient descent (as
    PyTorch's `optim.SGD`). Gradients are those that `grad_update` leaves.

    With momentum, `v = momentum * v + gradient + weight_decay * p`, and `p -= learning_rate * v`; `nesterov`
    looks ahead by one momentum step. `learning_rate` may be an expression, for example of an `oc.index`.
    """
    updates = [
        sgd_one(
            p, learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov
        )
        for p in oc.params(loss, trained=True).values()
    ]
    return oc.block_comment(f"{loss.label} sgd update", sum(updates, oc.Code()))


def sgd_one(
    p: oc.Tensor,
    *,
    learning_rate: oc.TensorLike,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> oc.Code:
    """The update of one parameter by stochastic gradient descent; its momentum is a node of the parameter's
    shape.
    """
    with oc.code(f"{p.label} sgd step") as step:
        delta = p.grad + weight_decay * p if weight_decay else p.grad
        if momentum:
            m = oc.node("sgd_momentum", of=p, kind="moment")
            m[...] = momentum * m + delta
            delta = delta + momentum * m if nesterov else m
        p -= learning_rate * delta
    return step


def adam_update(
    loss: oc.Tensor,
    *,
    learning_rate: oc.TensorLike = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> oc.Code:
    """Code that updates every parameter that a loss has derivatives for, by Adam (Kingma and Ba, 2015), with
    decoupled weight decay (Loshchilov and Hutter, 2019; as PyTorch's `optim.AdamW`). Gradients are those that
    `grad_update` leaves.
    """
    steps = oc.node("adam_steps", output=[], kind="counter")
    with oc.code("adam step count") as counted:
        steps += 1
    corrections = 1 - beta1**steps, 1 - beta2**steps
    updates = [
        adam_one(
            p,
            steps,
            corrections,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            weight_decay=weight_decay,
        )
        for p in oc.params(loss, trained=True).values()
    ]
    return oc.block_comment(f"{loss.label} adam update", sum(updates, counted))


def adam_one(
    p: oc.Tensor,
    steps: oc.Tensor,
    corrections: tuple[oc.Tensor, oc.Tensor] | None = None,
    *,
    learning_rate: oc.TensorLike = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> oc.Code:
    """The update of one parameter by Adam in step number `steps`, counted from 1; its moments are nodes of
    the parameter's shape. Parameters may share `corrections`, the bias corrections of both moments.
    """
    of_mean, of_square = corrections or (1 - beta1**steps, 1 - beta2**steps)
    with oc.code(f"{p.label} adam step") as step:
        m, v = (oc.node(name, of=p, kind="moment") for name in ("adam_mean", "adam_square"))
        m[...] = beta1 * m + (1 - beta1) * p.grad
        v[...] = beta2 * v + (1 - beta2) * p.grad**2
        mean, square = m / of_mean, v / of_square
        delta = mean / (oc.sqrt(square) + epsilon)
        p -= learning_rate * (delta + weight_decay * p if weight_decay else delta)
    return step


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


explain_all(__all__, globals())
