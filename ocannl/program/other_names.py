"""Names of PyTorch, JAX and NumPy, and what is there in their place."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from keyword import iskeyword
from typing import TYPE_CHECKING, ClassVar

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.program.location import here


def missing(owner: str, name: str, known: Collection[str], others: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that there is not, with what may be meant."""
    near = [name] if name in others else _spelt_alike(name, [*known, *others])
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if near and near[0] in others:
        hint = f"; in its place: {others[near[0]]}"
    # Given its name but no object, Python itself adds no other suggestion.
    return AttributeError(here(f"{owner} has no attribute {name!r}{hint}"), name=name)


def _spelt_alike(name: str, known: Collection[str]) -> list[str]:
    """The name that is spelt most alike, if one is; small and large letters decide last."""
    lower = {other.lower() for other in known}
    near = get_close_matches(name.lower(), lower, 1)
    return get_close_matches(name, [other for other in known if other.lower() in near], 1, cutoff=0)


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
    "addmm": "x + w @ y, or oc.einsum",
    "allclose": "np.allclose(t.numpy(), u.numpy())",
    "amax": "oc.max",
    "amin": "oc.min",
    "array": "oc.data, or oc.tensor",
    "asarray": "oc.data, or oc.tensor",
    "bernoulli": "oc.uniform(counter) < p",
    "bincount": "oc.scatter of ones",
    "bitwise_left_shift": "oc.left_shift",
    "bmm": PRODUCT,
    "bool_": "np.bool_",
    "broadcast_to": BROADCAST,
    "cat": "oc.concat",
    "cdist": "oc.norm(x[:, None] - y[None])",
    "chunk": PARTS,
    "clamp": "oc.clip",
    "compile": "oc.function, or ctx.compile",
    "concatenate": "oc.concat",
    "corrcoef": "oc.einsum",
    "cov": "oc.einsum",
    "cross": "oc.einsum",
    "cuda": "oc.Context.cuda()",
    "device": "a context: oc.Context.cpu()",
    "diag": "oc.einsum",
    "divide": "oc.div, or a / b",
    "dot": PRODUCT,
    "e": "np.e",
    "empty": "oc.node, or oc.zeros",
    "erfc": "1 - oc.erf(t)",
    "erfinv": "nothing, it is not there",
    "eval": "t.numpy(), or ctx[t]",
    "expand": BROADCAST,
    "from_numpy": "oc.data",
    "full_like": "oc.full, or oc.constant",
    "gelu": "nn.gelu",
    "heaviside": "oc.where",
    "hstack": "oc.concat",
    "index_select": "t[ids], or oc.gather",
    "inf": "np.inf",
    "inference_mode": "oc.stop_gradient",
    "inner": "oc.einsum",
    "int16": "np.int16",
    "int32": "np.int32",
    "int64": "np.int64",
    "int8": "np.int8",
    "is_tensor": "isinstance(t, oc.Tensor)",
    "isclose": "oc.abs(t - u) < 1e-6",
    "jit": "oc.function",
    "kron": "oc.einsum",
    "lerp": "t + weight * (u - t)",
    "load": "ctx.load",
    "log_softmax": "nn.log_softmax()",
    "logical_xor": "oc.ne",
    "logit": "oc.log(p / (1 - p))",
    "manual_seed": "oc.seed",
    "masked_fill": "oc.where",
    "matmul": PRODUCT,
    "median": "oc.sort(t), and its middle",
    "mm": PRODUCT,
    "moveaxis": "oc.rearrange",
    "multinomial": "oc.generate, or oc.topk of scores with noise",
    "mv": "w @ x",
    "nan": "np.nan",
    "nan_to_num": "oc.where(oc.isnan(t), 0, t)",
    "nanmean": "oc.where(oc.isnan(t), 0, t) and a count",
    "nansum": "oc.where(oc.isnan(t), 0, t).sum()",
    "negative": "oc.neg, or -t",
    "newaxis": "t[:, None]",
    "no_grad": "oc.stop_gradient",
    "nonzero": "np.nonzero(t.numpy()), since shapes do not depend on values",
    "ones_like": "oc.ones",
    "optim": "train, such as train.adamw()",
    "outer": "oc.einsum",
    "pad": "oc.concat with oc.zeros",
    "permute": "oc.rearrange",
    "pi": "np.pi",
    "positive": "t",
    "power": "oc.pow, or a ** b",
    "rand": "oc.uniform",
    "randn": "oc.normal",
    "rsqrt": "oc.recip_sqrt",
    "save": "ctx.save",
    "scatter_add": "oc.scatter",
    "searchsorted": "oc.argsort, or np.searchsorted",
    "set_default_dtype": "with oc.precision(dtype)",
    "set_printoptions": "oc.print(t, digits=4)",
    "silu": "nn.silu",
    "softmax": "nn.softmax()",
    "split": PARTS,
    "squeeze": "t.reshape",
    "swapaxes": "oc.rearrange",
    "take": "t[ids], or oc.gather",
    "tensordot": "oc.einsum",
    "tile": "oc.repeat",
    "trace": "oc.einsum",
    "transpose": "t.T, or oc.rearrange",
    "true_divide": "oc.div, or a / b",
    "uint16": "np.uint16",
    "uint32": "np.uint32",
    "uint8": "np.uint8",
    "unbind": PARTS,
    "unsqueeze": "t[:, None]",
    "utils": "train.batches, and oc.checkpoint",
    "value_and_grad": "oc.function(f).value_and_grad(x)",
    "vmap": "nothing, batch axes are rows of their own",
    "vstack": "oc.concat",
    "zeros_like": "oc.zeros",
}
"""Of the module."""

WRITE = "m[...] = value, m += value"
CAST, CONTEXT = "oc.cast(t, dtype)", "the device is that of a context: ctx.device"

# Functions of the module that are methods in PyTorch; operators are further ones.
ALONG = (
    *("argsort", "clip", "cumprod", "cumsum", "flip", "gather", "logsumexp", "norm", "repeat", "roll"),
    *("scatter", "sort", "std", "topk", "tril", "triu", "unfold", "var"),
)

OF_TENSORS = {
    **{name: f"oc.{name}(t)" for name in sorted(SCALAR_OPS) if not iskeyword(name)},
    **{name: f"oc.{name}(t, ...)" for name in ALONG},
    "add_": WRITE,
    "astype": CAST,
    "bool": CAST,
    "chunk": PARTS,
    "clamp": "oc.clip(t, ...)",
    "clamp_": WRITE,
    "clone": "nothing, expressions are values",
    "contiguous": "nothing, arrays are dense",
    "copy": "nothing, expressions are values",
    "copy_": WRITE,
    "cpu": "a context: oc.Context.cpu()",
    "cuda": "a context: oc.Context.cuda()",
    "data": "t.numpy(), or oc.stop_gradient(t)",
    "detach": "oc.stop_gradient(t)",
    "device": CONTEXT,
    "diag": "oc.einsum",
    "dim": "t.ndim",
    "div_": WRITE,
    "dot": "oc.einsum",
    "double": CAST,
    "expand": BROADCAST,
    "fill_": WRITE,
    "flatten": "t.reshape",
    "float": CAST,
    "half": CAST,
    "index_select": "t[ids], or oc.gather",
    "int": CAST,
    "is_cuda": CONTEXT,
    "is_leaf": "nothing, memory is what contexts keep",
    "long": CAST,
    "mT": "oc.rearrange",
    "masked_fill": "oc.where",
    "matmul": "w @ t",
    "mm": "w @ t",
    "mul_": WRITE,
    "nbytes": "t.numpy().nbytes, or ctx.memory()",
    "new_ones": "oc.ones",
    "new_zeros": "oc.zeros",
    "nonzero": "np.nonzero(t.numpy()), since shapes do not depend on values",
    "normal_": WRITE,
    "numel": "t.numpy().size",
    "permute": "oc.rearrange",
    "ravel": "t.reshape(-1)",
    "register_hook": "oc.custom_gradient",
    "requires_grad": "oc.param, whose gradient is p.grad",
    "retain_grad": "nothing, t.grad is there",
    "size": "t.shape",
    "softmax": "nn.softmax()(t)",
    "split": PARTS,
    "squeeze": "t.reshape",
    "sub_": WRITE,
    "swapaxes": "oc.rearrange",
    "t": "t.T",
    "to": "oc.cast(t, dtype); a device is a context",
    "tolist": "t.numpy().tolist()",
    "transpose": "t.T, or oc.rearrange",
    "type": CAST,
    "unbind": PARTS,
    "uniform_": WRITE,
    "unsqueeze": "t[:, None]",
    "zero_": WRITE,
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
    "AdaptiveAvgPool1d": "a mean over the positions: x.mean(1)",
    "AdaptiveAvgPool2d": "nn.global_avg_pool2d, or nn.avg_pool2d",
    "BCELoss": "nn.bce_with_logits, of scores",
    "BCEWithLogitsLoss": "nn.bce_with_logits",
    "BatchNormalization": "nn.batch_norm2d",
    "Bilinear": "oc.einsum",
    "CTCLoss": "nn.ctc",
    "ConstantPad2d": "nn.pad",
    "Conv": "nn.conv2d",
    "CosineEmbeddingLoss": "nn.cosine_similarity",
    "CrossEntropyLoss": "nn.cross_entropy",
    "Dense": "nn.linear",
    "Flatten": "nothing, or oc.einsum",
    "HuberLoss": "nn.huber",
    "Identity": "nothing",
    "KLDivLoss": "nn.kl_div",
    "L1Loss": "nn.l1",
    "LayerNormalization": "nn.layer_norm",
    "MSELoss": "nn.mse",
    "Module": OWN_BLOCK,
    "ModuleDict": OWN_LIST,
    "ModuleList": OWN_LIST,
    "NLLLoss": "nn.nll",
    "PairwiseDistance": "oc.norm(a - b)",
    "Parameter": "oc.param",
    "ParameterList": "a list of oc.param",
    "ReLU": "oc.relu",
    "ReflectionPad2d": "nn.pad",
    "ReplicationPad2d": "nn.pad",
    "Sequential": "a function that calls one block after the other",
    "SmoothL1Loss": "nn.smooth_l1",
    "Softplus": "nn.softplus",
    "Tanh": "oc.tanh",
    "TripletMarginLoss": "nn.triplet",
    "Upsample": "nn.interpolate",
    "ZeroPad2d": "nn.pad",
    "binary_cross_entropy": "nn.bce_with_logits, of scores",
    "binary_cross_entropy_with_logits": "nn.bce_with_logits",
    "compact": "@oc.block",
    "flatten": "nothing, or oc.einsum",
    "functional": "nn, whose blocks without parameters are functions",
    "gaussian_nll_loss": "0.5 * (oc.log(v) + (x - y) ** 2 / v)",
    "hardtanh": "oc.clip(x, -1, 1)",
    "init": "oc.init",
    "logsigmoid": "-nn.softplus(-x)",
    "margin_ranking_loss": "nn.hinge",
    "mse_loss": "nn.mse",
    "normalize": "x / oc.norm(x)[:, None]",
    "one_hot": "oc.one_hot",
    "pairwise_distance": "oc.norm(a - b)",
    "parameter": "oc.param",
    "poisson_nll_loss": "oc.exp(log_rate) - target * log_rate",
    "relu": "oc.relu",
    "soft_margin_loss": "nn.softplus(-y * x)",
    "softshrink": "oc.sign(x) * oc.relu(oc.abs(x) - 0.5)",
    "tanh": "oc.tanh",
    "tanhshrink": "x - oc.tanh(x)",
    "threshold": "oc.where",
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
