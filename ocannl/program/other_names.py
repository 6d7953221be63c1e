"""Names of PyTorch and NumPy, and what is there in their place."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING


def missing(owner: str, name: str, known: Collection[str], others: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that there is not, with what may be meant."""
    same = [other for other in known if other.lower() == name.lower()]
    near = same or get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if name in others:
        hint = f"; in its place: {others[name]}"
    return AttributeError(f"{owner} has no attribute {name!r}{hint}")


class NamesApart:
    """Names the place of what PyTorch's tensors have and these do not."""

    __slots__ = ()

    if not TYPE_CHECKING:  # for a type checker there is nothing else

        def __getattr__(self, name: str) -> object:
            known = () if name.startswith("_") else dir(type(self))
            raise missing(f"'{type(self).__name__}' object", name, known, OF_TENSORS)


FUNCTIONS = {
    "cat": "oc.concat",
    "concatenate": "oc.concat",
    "from_numpy": "oc.data",
    "load": "ctx.load",
    "manual_seed": "oc.seed",
    "matmul": "oc.einsum, or w @ x",
    "no_grad": "oc.stop_gradient",
    "rand": "oc.uniform",
    "randn": "oc.normal",
    "save": "ctx.save",
}
"""Of the module."""

OF_TENSORS = {
    "astype": "oc.cast(t, dtype)",
    "cpu": "a context: oc.Context.cpu()",
    "cuda": "a context: oc.Context.cuda()",
    "detach": "oc.stop_gradient(t)",
    "flatten": "t.reshape",
    "permute": "oc.rearrange",
    "requires_grad": "oc.param, whose gradient is p.grad",
    "size": "t.shape",
    "squeeze": "t.reshape",
    "to": "oc.cast(t, dtype); a device is a context",
    "tolist": "t.numpy().tolist()",
    "transpose": "t.T, or oc.rearrange",
    "type": "oc.cast(t, dtype)",
    "unsqueeze": "t.reshape",
}
"""Of a tensor."""

OF_BLOCKS = {
    "eval": "apply it without train_step=",
    "load_state_dict": "ctx.load(path, block)",
    "named_parameters": ".params",
    "parameters": ".params",
    "requires_grad_": ".freeze()",
    "state_dict": ".state, or ctx.save(path, block)",
    "train": "apply it with train_step=",
}
