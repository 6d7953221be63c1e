"""Names of PyTorch, JAX and NumPy, and what is there in their place."""

import re
from abc import ABCMeta
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from keyword import iskeyword
from typing import TYPE_CHECKING, ClassVar

from ocannl.dialects.scalar import SCALAR_OPS
from ocannl.program.location import here


def missing(owner: str, name: str, known: Collection[str], others: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that does not exist, with what may be meant."""
    meant = _meant(name, known, others)
    if meant is None:
        hint = ""
    elif meant in others and (meant == name or meant not in known):
        hint = f"; in its place: {others[meant]}"
    else:
        hint = f"; did you mean {meant!r}?"
    # Given its name but no object, Python itself adds no other suggestion.
    return AttributeError(here(f"{owner} has no attribute {name!r}{hint}"), name=name)


def _meant(name: str, known: Collection[str], others: Mapping[str, str]) -> str | None:
    """The name that is meant by another one. For names with an underscore in front nothing is searched: tools
    such as pytest ask all objects for theirs.
    """
    if name in others or name.startswith("_"):
        return name if name in others else None
    # PyTorch's functions that write their argument end in `_`; of one and three axes there are twins.
    for twin in (name.rstrip("_"), re.sub("[13]d", "2d", name)):
        if twin in others or (name.endswith("_") and twin in known):
            return twin
    # What another word stands for would be wrong advice.
    return _spelt_alike(name, known, 0.7) or _spelt_alike(name, others, 0.85)


def _spelt_alike(name: str, known: Collection[str], least: float) -> str | None:
    """The name that is spelt most alike, if one is at least so much; small and large letters decide last."""
    lower = {other.lower() for other in known}
    near = get_close_matches(name.lower(), lower, 1, least)
    same = [other for other in known if other.lower() in near]
    return next(iter(get_close_matches(name, same, 1, cutoff=0)), None)


class NamesApart:
    """Says what is meant by a name that its objects do not have: one that is spelt alike, or what there is in
    the place of a name of PyTorch's.
    """

    __slots__ = ()
    in_place_of: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # for a type checker there is nothing else

        def __getattr__(self, name: str) -> object:
            known = () if name.startswith("_") else [own for own in dir(type(self)) if own[0] != "_"]
            raise missing(f"'{type(self).__name__}' object", name, known, self.in_place_of)


class ClassNamesApart(ABCMeta):
    """Says the same for names that such a class itself does not have."""

    in_place_of: Mapping[str, str]

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> object:
            known = () if name.startswith("_") else [own for own in dir(cls) if own[0] != "_"]
            raise missing(f"type object '{cls.__name__}'", name, known, cls.in_place_of)


CONTEXTS = {"gpu": "oc.Context.cuda() or oc.Context.metal()"}

PARTS, BROADCAST = "t[first:last]", "nothing, expressions broadcast"
COUNTED = "since shapes do not depend on values"

NEIGHBOURS = "t[..., 1:] - t[..., :-1]"
WRITE = "m[...] = value, m += value"
CAST, CONTEXT = "oc.cast(t, dtype)", "the device is that of a context: ctx.device"

# Functions of the module that are methods in PyTorch; operators are further ones.
ALONG = (
    *("argsort", "clip", "cummax", "cummin", "cumprod", "cumsum", "flip", "gather", "logcumsumexp"),
    *("logical_and", "logical_or", "logsumexp", "maximum", "minimum", "norm", "repeat", "roll", "scatter"),
    *("sort", "std", "topk", "tril", "triu", "unfold", "var"),
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
    "diff": NEIGHBOURS,
    "dim": "t.ndim",
    "div_": WRITE,
    "dot": "oc.einsum",
    "double": CAST,
    "expand": BROADCAST,
    "fill_": WRITE,
    "flatten": "t.reshape(len(t), -1)",
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
    "nonzero": f"np.nonzero(t.numpy()), {COUNTED}",
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

LOWERED, RUNS = "f.lower(x, y)", "f.lower(x, y).compile()"

OF_FUNCTIONS = {
    **{name: f"{LOWERED}.{name}()" for name in ("ir", "schedule")},
    **{name: f"{RUNS}.{name}(...)" for name in ("memory", "profile", "run_loop", "why")},
    "backward": "the step of an optimizer inside of it, or oc.grad(f)",
    "code": f"{LOWERED}.code",
    "eval": "another function, which applies blocks without train_step=",
    "parameters": "oc.state(f), or block.params",
    "params": "oc.state(f), or block.params",
    "state": "oc.state(f)",
    "state_dict": "oc.state(f), or ctx.save(path, f)",
    "train": "an argument, which blocks get as train_step=",
    "tune": f"oc.tune({RUNS})",
}
"""Of an `oc.function`."""

OF_INIT = {
    "dirac": "an array, oc.param('w', array)",
    "eye": "an array, oc.param('w', np.eye(n))",
    "glorot": "oc.init.xavier",
    "glorot_uniform": "oc.init.xavier",
    "he": "oc.init.kaiming",
    "he_normal": "oc.init.kaiming",
    "kaiming_normal": "oc.init.kaiming",
    "kaiming_uniform": "oc.init.kaiming, or an expression of oc.uniform",
    "lecun_normal": "oc.init.kaiming(1.0)",
    "ones": "1.0, a number is an initial value",
    "orthogonal": "an array, oc.param('w', np.linalg.qr(array)[0])",
    "trunc_normal": "an expression, oc.clip(oc.normal(0), -2, 2)",
    "truncated_normal": "an expression, oc.clip(oc.normal(0), -2, 2)",
    "variance_scaling": "oc.init.kaiming and oc.init.xavier, by their gain",
    "xavier_normal": "oc.init.xavier, or oc.init.kaiming",
    "xavier_uniform": "oc.init.xavier",
    "zeros": "0.0, a number is an initial value",
}
"""Of initial values."""

OWN_BLOCK = "a function of tensors, as oc.Block(function), or @oc.configurable"
OWN_LIST = "a list or a dictionary of blocks"

OF_NN = {
    "LPPool2d": "nn.avg_pool2d of x ** p",
    "gaussian_nll_loss": "0.5 * (oc.log(v) + (x - y) ** 2 / v)",
    "lp_pool2d": "nn.avg_pool2d of x ** p",
    "focal_loss": 'nn.cross_entropy(reduction="none"), weighted by (1 - p) ** gamma',
    "AdaptiveAvgPool1d": "x.mean(1), or nn.avg_pool1d",
    "AdaptiveAvgPool2d": "nn.global_avg_pool2d, or nn.avg_pool2d",
    "AdaptiveAvgPool3d": "x.mean of three axes, or nn.avg_pool3d",
    "AdaptiveLogSoftmaxWithLoss": "nn.cross_entropy",
    "AdaptiveMaxPool1d": "x.max(1), or nn.max_pool1d",
    "AdaptiveMaxPool2d": "x.max((1, 2)), or nn.max_pool2d",
    "AdaptiveMaxPool3d": "x.max of three axes, or nn.max_pool3d",
    "AlphaDropout": "nn.dropout",
    "BCELoss": "nn.bce_with_logits, of scores",
    "BCEWithLogitsLoss": "nn.bce_with_logits",
    "BatchNorm3d": "nn.batch_norm2d, for any number of positions",
    "BatchNormalization": "nn.batch_norm2d",
    "Bilinear": "oc.einsum",
    "CELU": "nn.elu; for another alpha, alpha * nn.elu(x / alpha)",
    "CTCLoss": "nn.ctc",
    "ChannelShuffle": "oc.rearrange",
    "CircularPad2d": 'nn.pad(padding, mode="circular")',
    "ConstantPad2d": "nn.pad",
    "Conv": "nn.conv2d",
    "CosineEmbeddingLoss": "nn.cosine_similarity",
    "CrossEntropyLoss": "nn.cross_entropy",
    "CrossMapLRN2d": "nn.group_norm, which has replaced it",
    "DataParallel": "a mesh, and oc.data(x, shard=...)",
    "Dense": "nn.linear",
    "Dropout2d": "x * oc.where(oc.uniform(step, batch=[n, 1, 1], output=channels) < keep, 1 / keep, 0)",
    "EmbeddingBag": "nn.embedding(...)(ids).mean(1)",
    "FeatureAlphaDropout": "nn.dropout",
    "Flatten": "nothing, or oc.einsum",
    "Fold": "nn.conv_transpose2d, or the gradient of oc.unfold",
    "FractionalMaxPool2d": "nn.max_pool2d",
    "GRUCell": "nn.gru, of one position",
    "Hardshrink": "oc.where(oc.abs(x) > 0.5, x, 0)",
    "Hardsigmoid": "oc.clip(x / 6 + 0.5, 0, 1)",
    "HingeEmbeddingLoss": "oc.where(oc.eq(y, 1), x, oc.relu(margin - x))",
    "HuberLoss": "nn.huber",
    "Identity": "nothing",
    "KLDivLoss": "nn.kl_div",
    "L1Loss": "nn.l1",
    "LSTMCell": "nn.lstm, of one position",
    "LayerNormalization": "nn.layer_norm",
    "LinearCrossEntropyLoss": "nn.cross_entropy(nn.linear(...)(x), ids)",
    "LocalResponseNorm": "nn.group_norm, which has replaced it",
    "MSELoss": "nn.mse",
    "MaxUnpool2d": "nn.max_unpool",
    "Module": OWN_BLOCK,
    "ModuleDict": OWN_LIST,
    "ModuleList": OWN_LIST,
    "MultiLabelMarginLoss": "nn.hinge of differences of scores",
    "MultiLabelSoftMarginLoss": "nn.bce_with_logits",
    "MultiMarginLoss": "nn.hinge of differences of scores",
    "NLLLoss": "nn.nll",
    "PReLU": 'oc.where(x > 0, x, a * x), with a = oc.param("a", 0.25)',
    "PairwiseDistance": "oc.norm(a - b)",
    "Parameter": "oc.param",
    "ParameterDict": "a dictionary of oc.param",
    "ParameterList": "a list of oc.param",
    "RNNCell": "nn.rnn, of one position",
    "RReLU": "nn.leaky_relu",
    "ReLU": "oc.relu",
    "ReflectionPad2d": "nn.pad",
    "ReplicationPad2d": "nn.pad",
    "Sequential": "a function that calls one block after the other",
    "SmoothL1Loss": "nn.smooth_l1",
    "Softmin": "nn.softmax()(-x)",
    "Softplus": "nn.softplus",
    "Softsign": "x / (1 + oc.abs(x))",
    "SyncBatchNorm": "nn.batch_norm2d",
    "Tanh": "oc.tanh",
    "TransformerDecoderLayer": "nn.decoder_layer",
    "TransformerEncoderLayer": "nn.encoder_layer",
    "TripletMarginLoss": "nn.triplet",
    "TripletMarginWithDistanceLoss": "nn.hinge of differences of distances",
    "Unflatten": "x.reshape",
    "Upsample": "nn.interpolate",
    "UpsamplingBilinear2d": 'nn.interpolate(mode="linear", align_corners=True)',
    "UpsamplingNearest2d": "nn.interpolate",
    "ZeroPad2d": "nn.pad",
    "adaptive_avg_pool1d": "x.mean(1), or nn.avg_pool1d",
    "adaptive_avg_pool2d": "nn.global_avg_pool2d, or nn.avg_pool2d",
    "adaptive_max_pool1d": "x.max(1), or nn.max_pool1d",
    "adaptive_max_pool2d": "x.max((1, 2)), or nn.max_pool2d",
    "affine_grid": "nn.interpolate, or t[positions]",
    "alpha_dropout": "nn.dropout",
    "bce": "nn.bce_with_logits, of scores",
    "bilinear": "oc.einsum",
    "binary_cross_entropy": "nn.bce_with_logits, of scores",
    "binary_cross_entropy_with_logits": "nn.bce_with_logits",
    "celu": "nn.elu; for another alpha, alpha * nn.elu(x / alpha)",
    "channel_shuffle": "oc.rearrange",
    "compact": "@oc.block",
    "cosine_embedding_loss": "nn.cosine_similarity",
    "dropout2d": "x * oc.where(oc.uniform(step, batch=[n, 1, 1], output=channels) < keep, 1 / keep, 0)",
    "embedding_bag": "nn.embedding(...)(ids).mean(1)",
    "flatten": "nothing, or oc.einsum",
    "fold": "nn.conv_transpose2d, or the gradient of oc.unfold",
    "functional": "nn, whose blocks without parameters are functions",
    "grid_sample": "nn.interpolate, or t[positions]",
    "gumbel_softmax": "nn.softmax()(x - oc.log(-oc.log(oc.uniform(step, like=x))))",
    "hardshrink": "oc.where(oc.abs(x) > 0.5, x, 0)",
    "hardsigmoid": "oc.clip(x / 6 + 0.5, 0, 1)",
    "hardtanh": "oc.clip(x, -1, 1)",
    "hinge_embedding_loss": "oc.where(oc.eq(y, 1), x, oc.relu(margin - x))",
    "init": "oc.init",
    "linear_cross_entropy": "nn.cross_entropy(nn.linear(...)(x), ids)",
    "local_response_norm": "nn.group_norm, which has replaced it",
    "logsigmoid": "nn.log_sigmoid(x)",
    "mae": "nn.l1",
    "margin_ranking_loss": "nn.hinge",
    "max_pool2d_with_indices": "nn.max_pool2d(return_indices=True)",
    "max_unpool2d": "nn.max_unpool",
    "mse_loss": "nn.mse",
    "multi_margin_loss": "nn.hinge of differences of scores",
    "multilabel_margin_loss": "nn.hinge of differences of scores",
    "multilabel_soft_margin_loss": "nn.bce_with_logits",
    "normalize": "x / oc.norm(x, keep=True)",
    "one_hot": "oc.one_hot",
    "pack_padded_sequence": "lengths= of a call of nn.lstm, nn.gru or nn.rnn",
    "pad_packed_sequence": "nothing, results are 0 after lengths=",
    "pairwise_distance": "oc.norm(a - b)",
    "parameter": "oc.param",
    "pdist": "oc.norm(x[:, None] - x[None])",
    "poisson_nll_loss": "oc.exp(log_rate) - target * log_rate",
    "precision": "nn.f1, or nn.confusion_matrix",
    "prelu": 'oc.where(x > 0, x, a * x), with a = oc.param("a", 0.25)',
    "recall": "nn.f1, or nn.confusion_matrix",
    "relu": "oc.relu",
    "rrelu": "nn.leaky_relu",
    "scaled_dot_product_attention": "nn.dot_product_attention",
    "soft_margin_loss": "nn.softplus(-y * x)",
    "softmin": "nn.softmax()(-x)",
    "softshrink": "oc.sign(x) * oc.relu(oc.abs(x) - 0.5)",
    "softsign": "x / (1 + oc.abs(x))",
    "summary": "block.summary(x)",
    "tanh": "oc.tanh",
    "tanhshrink": "x - oc.tanh(x)",
    "threshold": "oc.where",
    "unfold": "oc.unfold",
    "upsample_bilinear": 'nn.interpolate(mode="linear", align_corners=True)',
    "upsample_nearest": "nn.interpolate",
    "utils": "train.clip_grad_norm, nn.weight_norm and nn.spectral_norm",
}
"""Of the blocks."""

OF_TRAIN = {
    "PolynomialLR": "lr=lambda step: 0.1 * (1 - oc.minimum(step / total, 1)) ** power",
    "ASGD": "swa= of an optimizer",
    "Adafactor": "train.adamw, or train.lion, which keeps half as much",
    "Adamax": "train.adam",
    "AveragedModel": "ema= of an optimizer",
    "ChainedScheduler": "lr= of a function of the step",
    "ConstantLR": "train.constant",
    "CosineAnnealingLR": "train.cosine",
    "CosineAnnealingWarmRestarts": "lr=lambda step: train.cosine(0.1, total)(step % total)",
    "CyclicLR": "lr=lambda step: low + (high - low) * oc.abs((step / half + 1) % 2 - 1)",
    "DataLoader": "train.batches",
    "Dataset": "arrays, or a function with yield, which train.batches takes",
    "EMA": "ema= of an optimizer",
    "ExponentialLR": "train.exponential",
    "GradScaler": "nothing, bfloat16 needs no scale",
    "LBFGS": "train.adam, or scipy.optimize with f.value_and_grad",
    "LambdaLR": "lr= of a function of the step",
    "LinearLR": "train.linear",
    "MultiStepLR": "lr=lambda step: 0.1 * oc.where(step < 30, 1.0, oc.where(step < 80, 0.1, 0.01))",
    "MultiplicativeLR": "train.exponential, or lr= of a function of the step",
    "OneCycleLR": "train.one_cycle",
    "ReduceLROnPlateau": "train.plateau",
    "SequentialLR": "lr=lambda step: oc.where(step < 100, warm(step), train.cosine(0.1, 900)(step - 100))",
    "SparseAdam": "train.adam",
    "StepLR": "train.step",
    "SummaryWriter": "train.tensorboard",
    "TensorDataset": "a tuple or dictionary of arrays, which train.batches takes",
    "Trainer": "train.fit",
    "accumulate": "accumulate= of an optimizer",
    "augment": "augment= of train.batches",
    "autocast": "with oc.precision(oc.float32, compute=oc.bfloat16)",
    "evaluate": "an oc.function without optimizer.step, as evaluate= of train.fit",
    "freeze": "block.freeze()",
    "load": "ctx.load, or train.Checkpoints",
    "lr_scheduler": "train.cosine, train.step and others, as lr=",
    "random_split": "parts of the arrays: x[:n] and x[n:]",
    "save": "ctx.save, or train.Checkpoints",
    "swa_utils": "swa= and ema= of an optimizer",
    "train_test_split": "parts of the arrays: x[:n] and x[n:]",
    "validate": "an oc.function without optimizer.step, as evaluate= of train.fit",
    "warmup": "train.warmup_cosine, or lr= of a function of the step",
}
"""Of what trains."""
