"""Names of tinygrad that OCANNL has too, by another name or not at all."""

from __future__ import annotations

NOT_SAID = {
    "masked_select nonzero": "shapes that depend on values",
    "bitcast": "the bits of floats",
    "empty rand uniform normal scaled_uniform glorot_uniform kaiming_uniform kaiming_normal": (
        "random numbers are of another API"
    ),
}
REASONS = {name: reason for names, reason in NOT_SAID.items() for name in names.split()}
RENAMED = {
    "rsqrt": "recip_sqrt",
    "reciprocal": "recip",
    "mul": "mul",
    "bitwise_not": "bitwise_not",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
OF_NN = {
    "gelu": "gelu",
    "silu": "silu",
    "swish": "silu",
    "mish": "mish",
    "relu6": "relu6",
    "elu": "elu",
    "selu": "selu",
    "hardswish": "hardswish",
    "leaky_relu": "leaky_relu",
}
