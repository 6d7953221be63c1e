"""Calls and names on which programs of others rely: each is there, with these arguments and defaults.

What they do is tested where they are; nothing is run here.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import ocannl as oc
from ocannl import nn, train

OWNERS: dict[str, Any] = {
    "oc": oc,
    "nn": nn,
    "train": train,
    "ctx": oc.Context,
    "t": oc.Tensor,
    "step": oc.Routine,
    "f": oc.Function,
    "s": oc.Session,
    "model": oc.Block,
    "keep": train.Checkpoints,
    "opt": train.Optimizer,
}
# Calls of methods are of the classes above, after which their variables are named.
CALLS = """
oc.data(array, label="x") ; oc.data(array, axes="b|i->o") ; oc.param("w") ; oc.param("b", 0.0, output=16)
oc.param("g", oc.init.kaiming(), input=[8], output=[4, 4]) ; oc.constant(1.0) ; oc.range(10)
oc.eq(a, b) ; oc.ne(a, b) ; oc.where(cond, a, b) ; oc.relu(a) ; oc.maximum(a, b) ; oc.fma(a, b, c)
t.einsum("...|... => 0") ; oc.einsum(spec, x) ; oc.einsum(spec, q, k, h=8, d=d) ; oc.einmax(spec, x)
oc.tropical(spec, a, b) ; oc.outer_sum(spec, a, b) ; oc.concat(spec, a, b, c) ; oc.stack(ts, axis="output")
oc.stop_gradient(x) ; oc.infer(loss) ; t.ir() ; t.ir("assign") ; oc.index("batch_n", 80) ; oc.index("step_n")
oc.Dim("d") ; oc.scope(label) ; oc.block(function) ; oc.params(loss)
oc.Context.auto() ; oc.Context.cpu(threads=2) ; oc.Context.cuda(device=0) ; ctx.compile(code, name="step")
ctx.init_params(loss, seed=1) ; ctx.init_params(loss, reinit=True) ; step(batch_n=3, step_n=7) ; step.loop()
step.run_loop(epochs=1, advance=[step_n], record=[loss, lr]) ; step.ir("loops") ; step.schedule()
step.memory() ; train.forward_once(ctx, y) ; train.update_once(ctx, loss) ; train.grad_update(loss)
train.sgd_update(loss, learning_rate=lr, weight_decay=1e-4) ; train.adam_update(loss, learning_rate=lr)
oc.code("sgd step") ; oc.node("delta", like=p) ; oc.set(target, 1) ; oc.block_comment("text", code)
oc.accumulate(top, "max", value, spec="... => 0", reset=True) ; oc.forward(y)
nn.causal_mask(seq_len) ; nn.mlp_layer(hid_dim=16) ; nn.mlp(hid_dims=[16, 16], out_dim=2)
nn.linear(out_dim=10, bias=True) ; nn.embedding(num=65, dim=128) ; nn.lstm(hid_dim)
nn.resnet_block(stride=1)
nn.conv2d(kernel_size=3, stride=1, use_padding=True, dilation=1, out_channels=None, bias=True)
nn.transformer_encoder(num_layers, num_heads, d_k, d_v, d_ff, pre_norm=True) ; nn.lenet(num_classes=10)
nn.decoder_only(num_layers, num_heads, d_k, d_v, d_ff, pre_norm=False) ; nn.hinge(margin) ; nn.mse(a, b)
nn.multi_head_attention(num_heads=4, d_k=32, d_v=32, dropout_rate=0.0, pos_embed=None, temperature=1.0)
nn.max_pool2d(stride=2, window_size=2) ; nn.smooth_max_pool2d(beta=1.0) ; nn.global_avg_pool2d(x)
nn.batch_norm2d(epsilon=1e-5, momentum=0.9) ; nn.layer_norm(epsilon=1e-5) ; nn.rms_norm(epsilon=1e-5)
nn.dropout(rate=0.1) ; nn.softmax(spec="... | ... -> ... d", temperature=1.0) ; nn.log_softmax(spec=spec)
nn.cross_entropy(logits, target, ignore_index=0, label_smoothing=0.1, weight=w, reduction="sum")
nn.triplet(a, p, n) ; nn.ctc(log_probs, target) ; nn.f1(predictions, target) ; nn.r2(predictions, target)
ctx.view(p) ; ctx.view(p, writable=True) ; t.numpy() ; t.item() ; oc.zeros(shape) ; oc.full(shape, 1.0)
oc.arange(0, 10, 2) ; oc.eye(3, 4, 1) ; oc.linspace(0.0, 1.0, 5) ; oc.tensor(values)
oc.full(shape=2, fill_value=1.0, dtype=None) ; oc.eye(N=3, M=4, k=1) ; oc.grad(f, 1) ; oc.grad(f, argnums=1)
oc.linspace(start=0, stop=1, num=5, endpoint=False) ; oc.arange(start=0, stop=10, step=2) ; oc.ones(shape=2)
oc.sum(t, axes, keep) ; t.sum(axes, keep) ; oc.var(t, axes=None, keep=True) ; t.argmax(axes=0) ; oc.any(t)
oc.sort(t, axis) ; oc.argsort(t, axis=0) ; oc.topk(t, 3, axis=0) ; oc.cumsum(t) ; oc.norm(t, axis=0)
oc.roll(t, 1, axis=0) ; oc.clip(t, low, high) ; t.reshape("b | h, w -> ...", h=4)
oc.rearrange(t, "b h -> h b") ; oc.eager() ; oc.eager(True) ; oc.seed(1) ; t.backward() ; t.zero()
oc.Session(backend="eager", device="cpu", seed=0, matmul_precision="highest") ; s.param(values)
s.input(values) ; s.const(values) ; s.use(p) ; s.value(t) ; s.backward(t) ; s.backward_with_seed(t, seed)
s.grad(t) ; s.sgd_step(lr=0.1) ; s.adam_step(lr=0.1) ; s.adamw_step(lr=0.1, weight_decay=0.1) ; s.reset()
s.detach(t) ; s.uniform((2, 3)) ; s.bernoulli_mask(0.5, (2, 3))
oc.function(fn, ctx=None, axes={}, static=("flag",), name=None) ; f.signatures() ; f.lower(x) ; f.jvp(xs, dxs)
f.vjp(xs, cotangent) ; oc.grad(f) ; oc.grad(y, xs) ; oc.jacobian(f) ; oc.hessian(f)
oc.checkpoint(f) ; oc.jvp(y, xs, dxs) ; oc.vjp(y, xs, cotangents) ; oc.state(what)
ctx.save("model.npz", what) ; ctx.load("model.npz", what, strict=True, rename={}, partial=False)
train.Checkpoints("runs/a", keep=3, best="min") ; keep.save(ctx, what, step=1, metric=0.5)
keep.restore(ctx, what) ; oc.interop.from_torch(ctx, block, torch_state_dict, map=None)
oc.interop.to_torch(ctx, block) ; model.summary(x) ; model.freeze() ; model.replace("head", block)
train.adamw(lr=1e-3, weight_decay=0.1, groups={}, clip_norm=1.0, accumulate=4, ema=0.999) ; opt.step(loss)
opt.step(loss, params=ps) ; train.warmup_cosine(3e-4, warmup=100, total=5000) ; train.plateau(metric="loss")
train.clip_grad_norm(loss, 1.0) ; train.clip_grad_value(loss, 1.0)
train.batches(arrays, size=64, shuffle=1, drop_last=False, augment=None, prefetch=2)
train.fit(step, batches, epochs=10, evaluate=f, checkpoints=keep, log=[], stop=stop) ; train.progress()
train.csv("log.csv") ; train.tensorboard("runs/a") ; train.early_stopping(patience=3) ; train.plot(losses)
oc.print(t, style="tree") ; oc.materialize(t) ; oc.virtual(t) ; oc.threefry4x32(key, counter, rounds=20)
"""
NAMES = """
t.T t.shape t.grad t.value t.forward t.zero_grads t.backprop t.dtype t.ndim t.at f.value_and_grad
model.params model.state
oc.any oc.all oc.min oc.max oc.mean oc.prod oc.std oc.argmin oc.cummax oc.cumprod oc.flip oc.ones oc.config
oc.init oc.ShapeError oc.SpecError oc.UninitializedError oc.DeviceError oc.OcannlError oc.default_context
nn.conv1d nn.conv3d nn.conv_transpose2d nn.depthwise_separable_conv2d nn.avg_pool2d nn.batch_norm1d nn.gelu
nn.silu nn.softplus nn.sigmoid nn.accuracy nn.top_k_accuracy nn.confusion_matrix nn.perplexity nn.huber
nn.bce_with_logits nn.smooth_l1 nn.l1 nn.kl_div nn.nll nn.cosine_similarity nn.transformer nn.rotary
train.sgd train.adam train.rmsprop train.adagrad train.adadelta train.nadam train.radam train.lamb train.lion
train.muon train.rprop train.constant train.linear train.step train.exponential train.cosine train.one_cycle
"""
DEFAULTS = """
nn.conv2d(kernel_size=3, stride=1, use_padding=True, dilation=1, out_channels=None, bias=True)
nn.max_pool2d(stride=2, window_size=2) ; nn.smooth_max_pool2d(beta=1.0) ; nn.dropout(rate=0.1)
nn.batch_norm2d(epsilon=1e-5, momentum=0.9) ; nn.layer_norm(epsilon=1e-5) ; nn.linear(bias=True)
nn.softmax(spec="... | ... -> ... d", temperature=1.0) ; nn.cross_entropy(ignore_index=None, reduction="mean")
nn.multi_head_attention(dropout_rate=0.0, pos_embed=None) ; nn.lenet(num_classes=10)
nn.resnet_block(stride=1) ; oc.sum(axes=None, keep=False)
oc.sort(axis=-1) ; oc.norm(axis=-1) ; oc.function(ctx=None, name=None)
oc.Session(backend="eager", device="cpu", seed=0, matmul_precision="highest") ; oc.threefry4x32(rounds=2)
train.batches(size=64, drop_last=False, augment=None, prefetch=2) ; train.early_stopping(patience=3)
ctx.load(strict=True, partial=False)
"""


def calls(text: str) -> list[str]:
    return [call.strip() for line in text.strip().splitlines() for call in line.split(" ; ")]


def found(path: ast.expr) -> Any:
    """The object that a path of names stands for; a class for its instances."""
    match path:
        case ast.Name(id=name):
            return OWNERS[name]
        case ast.Attribute(value=value, attr=name):
            return getattr(found(value), name)
        case _:
            raise AssertionError(ast.unparse(path))


def called(text: str) -> Iterator[tuple[inspect.Signature, ast.Call]]:
    """The calls of these owners in an expression, with the signatures of what they call."""
    for node in ast.walk(ast.parse(text, mode="eval")):
        if not isinstance(node, ast.Call):
            continue
        owner = found(node.func)
        if isinstance(node.func, ast.Name):
            owner = owner.__call__
        yield inspect.signature(owner), node


@pytest.mark.parametrize("text", calls(CALLS))
def test_a_call_binds(text: str):
    for signature, call in called(text):
        names = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
        with_self = "self" in signature.parameters
        signature.bind(*([None] * (len(call.args) + with_self)), **dict.fromkeys(names))


@pytest.mark.parametrize("path", NAMES.split())
def test_a_name_is_there(path: str):
    owner, _, name = path.partition(".")
    assert hasattr(OWNERS[owner], name)


@pytest.mark.parametrize("text", calls(DEFAULTS))
def test_a_default_is_what_is_said(text: str):
    for signature, call in called(text):
        for keyword in call.keywords:
            assert keyword.arg is not None
            assert signature.parameters[keyword.arg].default == ast.literal_eval(keyword.value)
