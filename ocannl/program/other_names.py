"""Names of PyTorch and NumPy, and what is there in their place."""

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

OF_BLOCKS = {
    "eval": "apply it without train_step=",
    "load_state_dict": "ctx.load(path, block)",
    "named_parameters": ".params",
    "parameters": ".params",
    "requires_grad_": ".freeze()",
    "state_dict": ".state, or ctx.save(path, block)",
    "train": "apply it with train_step=",
}
