"""Names of PyTorch, JAX and NumPy, and what is there in their place."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from keyword import iskeyword
from typing import TYPE_CHECKING, ClassVar

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.program.location import here


def missing(owner: str, name: str, known: Collection[str], others: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that there is not, with what may be meant."""
    same = [other for other in known if other.lower() == name.lower()]
    near = [name] if name in others else same or get_close_matches(name, [*known, *others], 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if near and near[0] in others:
        hint = f"; in its place: {others[near[0]]}"
    return AttributeError(here(f"{owner} has no attribute {name!r}{hint}"))


class NamesApart:
    """Names the place of what objects of PyTorch have and these do not."""

    __slots__ = ()
    in_place_of: ClassVar[Mapping[str, str]]

    if not TYPE_CHECKING:  # for a type checker there is nothing else

        def __getattr__(self, name: str) -> object:
            known = () if name.startswith("_") else [own for own in dir(type(self)) if own[0] != "_"]
            raise missing(f"'{type(self).__name__}' object", name, known, self.in_place_of)


PRODUCT, PARTS, BROADCAST = "oc.einsum, or w @ x", "t[first:last]", "nothing, expressions broadcast"

FUNCTIONS = {
    "Module": "oc.Block(function), or @oc.configurable",
    "Parameter": "oc.param",
    "amax": "oc.max",
    "amin": "oc.min",
    "bmm": PRODUCT,
    "broadcast_to": BROADCAST,
    "cat": "oc.concat",
    "chunk": PARTS,
    "clamp": "oc.clip",
    "compile": "oc.function, or ctx.compile",
    "concatenate": "oc.concat",
    "device": "a context: oc.Context.cpu()",
    "diag": "oc.einsum",
    "dot": PRODUCT,
    "eval": "t.numpy(), or ctx[t]",
    "expand": BROADCAST,
    "from_numpy": "oc.data",
    "hstack": "oc.concat",
    "index_select": "t[ids], or oc.gather",
    "inner": "oc.einsum",
    "jit": "oc.function",
    "kron": "oc.einsum",
    "load": "ctx.load",
    "log_softmax": "nn.log_softmax()",
    "manual_seed": "oc.seed",
    "masked_fill": "oc.where",
    "matmul": PRODUCT,
    "mm": PRODUCT,
    "multinomial": "oc.generate, or oc.topk of scores with noise",
    "nan_to_num": "oc.where(oc.isnan(t), 0, t)",
    "no_grad": "oc.stop_gradient",
    "ones_like": "oc.ones",
    "optim": "train, such as train.adamw()",
    "outer": "oc.einsum",
    "pad": "oc.concat with oc.zeros",
    "permute": "oc.rearrange",
    "rand": "oc.uniform",
    "randn": "oc.normal",
    "save": "ctx.save",
    "scatter_add": "oc.scatter",
    "softmax": "nn.softmax()",
    "split": PARTS,
    "squeeze": "t.reshape",
    "swapaxes": "oc.rearrange",
    "take": "t[ids], or oc.gather",
    "tensordot": "oc.einsum",
    "tile": "oc.repeat",
    "trace": "oc.einsum",
    "transpose": "t.T, or oc.rearrange",
    "unbind": PARTS,
    "unsqueeze": "t[:, None]",
    "value_and_grad": "oc.function(f).value_and_grad(x)",
    "vmap": "nothing, batch axes are rows of their own",
    "vstack": "oc.concat",
    "zeros_like": "oc.zeros",
}
"""Of the module."""

CAST, CONTEXT = "oc.cast(t, dtype)", "the device is that of a context: ctx.device"

# Functions of the module that are methods in PyTorch; operators are further ones.
ALONG = (
    *("argsort", "clip", "cumprod", "cumsum", "flip", "gather", "logsumexp", "norm", "repeat", "roll"),
    *("scatter", "sort", "std", "topk", "tril", "triu", "unfold", "var"),
)

OF_TENSORS = {
    **{name: f"oc.{name}(t)" for name in sorted(SCALAR_OPS) if not iskeyword(name)},
    **{name: f"oc.{name}(t, ...)" for name in ALONG},
    "astype": CAST,
    "chunk": PARTS,
    "clamp": "oc.clip(t, ...)",
    "clone": "nothing, expressions are values",
    "contiguous": "nothing, arrays are dense",
    "copy": "nothing, expressions are values",
    "cpu": "a context: oc.Context.cpu()",
    "cuda": "a context: oc.Context.cuda()",
    "data": "t.numpy(), or oc.stop_gradient(t)",
    "detach": "oc.stop_gradient(t)",
    "device": CONTEXT,
    "dim": "t.ndim",
    "double": CAST,
    "expand": BROADCAST,
    "flatten": "t.reshape",
    "float": CAST,
    "half": CAST,
    "int": CAST,
    "is_cuda": CONTEXT,
    "long": CAST,
    "masked_fill": "oc.where",
    "matmul": "w @ t",
    "mm": "w @ t",
    "numel": "t.numpy().size",
    "permute": "oc.rearrange",
    "ravel": "t.reshape(-1)",
    "requires_grad": "oc.param, whose gradient is p.grad",
    "size": "t.shape",
    "softmax": "nn.softmax()(t)",
    "split": PARTS,
    "squeeze": "t.reshape",
    "swapaxes": "oc.rearrange",
    "t": "t.T",
    "to": "oc.cast(t, dtype); a device is a context",
    "tolist": "t.numpy().tolist()",
    "transpose": "t.T, or oc.rearrange",
    "type": CAST,
    "unbind": PARTS,
    "unsqueeze": "t[:, None]",
}
"""Of a tensor."""

CONTEXT_OF_BLOCKS = "nothing, memory is that of a context: oc.Context.cuda()"

OF_BLOCKS = {
    "add_module": "a variable that its function uses",
    "apply": "init= of its parts, or ctx[p] = array",
    "buffers": ".state",
    "children": ".parts",
    "cpu": CONTEXT_OF_BLOCKS,
    "cuda": CONTEXT_OF_BLOCKS,
    "double": "with oc.precision(np.float64), around what makes it",
    "eval": "apply it without train_step=",
    "float": "with oc.precision(np.float32), around what makes it",
    "forward": "block(x)",
    "half": "with oc.precision(oc.float16), around what makes it",
    "load_state_dict": "ctx.load(path, block)",
    "modules": ".parts",
    "named_children": ".parts",
    "named_modules": ".parts",
    "named_parameters": ".params",
    "parameters": ".params",
    "register_buffer": "oc.node, which its function uses",
    "register_parameter": "oc.param, which its function uses",
    "requires_grad_": ".freeze()",
    "state_dict": ".state, or ctx.save(path, block)",
    "to": CONTEXT_OF_BLOCKS,
    "train": "apply it with train_step=",
    "zero_grad": "nothing, an optimizer's step(loss) sets gradients to zero",
}
"""Of a block."""

OF_OPTIMIZERS = {
    "add_param_group": "groups=, of patterns of names",
    "backward": "step(loss), which has the gradients",
    "get_last_lr": ".lr, or train.fit with train.tensorboard(optimizer=)",
    "load_state_dict": "ctx.load(path, optimizer)",
    "param_groups": "groups=, and a learning rate that changes is an argument of the function",
    "state": "oc.state(optimizer)",
    "state_dict": "oc.state(optimizer), or ctx.save(path, optimizer)",
    "zero_grad": "nothing, step(loss) sets gradients to zero",
}
"""Of an optimizer."""

OF_SCHEDULES = {
    "get_last_lr": "schedule(step).item()",
    "last_epoch": "nothing, the optimizer counts steps",
    "load_state_dict": "nothing, the optimizer's state has the counter",
    "state_dict": "nothing, the optimizer's state has the counter",
    "step": "nothing, the optimizer counts steps",
}
"""Of a schedule of learning rates."""

OWN_BLOCK = "a function of tensors, as oc.Block(function), or @oc.configurable"
OWN_LIST = "a list or a dictionary of blocks"

OF_NN = {
    "BCELoss": "nn.bce_with_logits, of scores",
    "Bilinear": "oc.einsum",
    "Conv": "nn.conv2d",
    "Dense": "nn.linear",
    "Flatten": "nothing, or oc.einsum",
    "Identity": "nothing",
    "HuberLoss": "nn.huber",
    "KLDivLoss": "nn.kl_div",
    "L1Loss": "nn.l1",
    "MSELoss": "nn.mse",
    "Module": OWN_BLOCK,
    "ModuleDict": OWN_LIST,
    "ModuleList": OWN_LIST,
    "NLLLoss": "nn.nll",
    "Parameter": "oc.param",
    "ParameterList": "a list of oc.param",
    "ReLU": "oc.relu",
    "Sequential": "a function that calls one block after the other",
    "SmoothL1Loss": "nn.smooth_l1",
    "Softplus": "nn.softplus",
    "Tanh": "oc.tanh",
    "Upsample": "nn.interpolate",
    "binary_cross_entropy": "nn.bce_with_logits, of scores",
    "binary_cross_entropy_with_logits": "nn.bce_with_logits",
    "flatten": "nothing, or oc.einsum",
    "functional": "nn, whose blocks without parameters are functions",
    "init": "oc.init",
    "mse_loss": "nn.mse",
    "one_hot": "oc.one_hot",
    "parameter": "oc.param",
    "relu": "oc.relu",
    "tanh": "oc.tanh",
    "unfold": "oc.unfold",
    "utils": "train.clip_grad_norm, nn.weight_norm and nn.spectral_norm",
}
"""Of the blocks."""

OF_TRAIN = {
    "CosineAnnealingLR": "train.cosine",
    "DataLoader": "train.batches",
    "ExponentialLR": "train.exponential",
    "GradScaler": "nothing, bfloat16 needs no scale",
    "LambdaLR": "lr= of a function of the step",
    "LinearLR": "train.linear",
    "OneCycleLR": "train.one_cycle",
    "ReduceLROnPlateau": "train.plateau",
    "StepLR": "train.step",
    "SummaryWriter": "train.tensorboard",
    "Trainer": "train.fit",
    "load": "ctx.load, or train.Checkpoints",
    "lr_scheduler": "train.cosine, train.step and others, as lr=",
    "save": "ctx.save, or train.Checkpoints",
}
"""Of what trains."""
