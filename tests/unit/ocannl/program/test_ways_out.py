"""Mistakes that users of other libraries make: the error says what to write."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.runtime.collectives import mpi

MISTAKES = [
    ("nn.softmax(x)", "softmax: it makes a block, which is called with tensors: softmax()(x)"),
    ("nn.linear(10)", "linear: all arguments are given by name. Its arguments are in_dim, out_dim"),
    ("nn.mlp(hid_dims=16, out_dim=2)", "`hid_dims` of mlp is of type Sequence[int], found 16: write [16]"),
    ("oc.concat([x, x])", 'and oc.concat("b | i; b | j => b | i^j", x, y)'),
    ("oc.einsum([0, 1], x)", 'found list; it stands before the operands, as in oc.einsum("i j; j k => i k"'),
    ("oc.stack(x, 'batch')", "several tensors are stacked, as in oc.stack([a, b], 'batch'); found one"),
    ("oc.einsum('i j, j k -> i k', x, x)", "comes after `=>`: here `i j; j k => i k`"),
    (
        "oc.einsum('b | i, i | j -> b | j', x, x)",
        "operands are separated by `;`, and the result comes after `=>`",
    ),
    ("oc.einsum('i j, j k => i k', x, x)", "operands are separated by `;`"),
    ("oc.einsum('i | j, j | k => i | k', x, x)", "in this slot: operands are separated by `;`"),
    ("oc.einsum('b1 i => b1', x)", "has 1; without a comma each letter is an axis"),
    ("x.einsum('b | d; b | d => b |', x)", "oc.einsum(spec, a, b) is of several"),
    (
        "x.reshape('b, i | h, w', h=2)",
        "the size of `w` in 'b, i | h, w' does not follow: the output row has 3 elements, which `h`, 2, does",
    ),
    (
        "oc.scan(lambda c, x: (c + x, c), 0.0, x[0])",
        "(3) has no batch axis, along which a scan goes; axis=0 is its first axis",
    ),
    ("oc.param('w', shape=(3, 4))", "no argument `shape`; sizes are given by row, as output=4, input=3"),
    ("nn.softmax(dim=-1)", "no argument `dim`; did you mean `spec`, by default"),
    ("oc.param('w', output=3).sum(-1)", "is ...->3; give input= where it is made, [] for no axes, or name"),
    (
        "oc.einsum('b | (h d) => b h | d', x, h=3)",
        "`(h d)` of einops is `h&d`, and a size is given by name: h=8",
    ),
    ("oc.einsum('b | 2&d => b | d', x)", "a size is given by name, as n=2"),
    ("oc.einsum('b | h*d => b h | d', x, h=3)", "the product of two axes is `h&d`"),
    ("oc.einsum('b | d => b', x, optimize=True)", "`optimize` is no argument here, and no name of the spec"),
    ("oc.einsum('x' * 99 + '| d => d', x)", "has 99 batch axes, `x` has 1"),
    ("oc.Context.cpu().compile([x.forward])", "a list of code is added up in order: `one + other`"),
    ("oc.data([1.0], label=3)", "memory is called by a string that is not empty, found 3"),
    ("oc.function(lambda n: x[:n])(2)", "an argument that Python itself has to know is named in oc.function"),
    ("oc.function(lambda n: x.reshape(n, -1))(5)", "an argument that Python itself has to know is named"),
    ("copy.deepcopy(oc.function(lambda t: t))", "a function is neither copied nor pickled"),
    ("train.sgd_update(x.sum(), lr=0.1)", "there is no argument `lr`; did you mean `learning_rate`?"),
    ("train.adam(learning_rate=0.1)", "adam has no option `learning_rate`; its options are lr, betas,"),
    ("train.adam(learning_rate=0.1)", "did you mean `lr`?"),
    ("oc.cond(x > 0, lambda: x, lambda: -x)", "a condition is one number, and `0 < x` has axes of 10, 3"),
    (
        "oc.while_loop(lambda v: v < 3, lambda v: v + 1, x, most=3)",
        "a condition is one number, and `x < 3` has axes of 10, 3",
    ),
    (
        "nn.conv2d(out_channels=8, kernel_size=3)(image[0, 0])",
        "an image is batch, height, width | channels, and `image[0, 0]` is 3",
    ),
    (
        "oc.einsum('...|d; ...|d => ...|', x[:1], x)",
        "is the same axes in all slots of a spec; `*` broadcasts",
    ),
    ("oc.einsum('...t|d; ...t|d => ...t|', x[None], x)", "a row variable is the same axes in all slots"),
    ("x @ oc.zeros((3, 2))", 'oc.einsum("i | j; j | k => i | k", x, data) is the product of data'),
    ("x @ x", "as weights have; oc.einsum says which axes of data are summed"),
    ("x[0] @ x[0]", 'oc.einsum("i; i => ", x[0], x[0]) is the product of data'),
    ("nn.softmax()(oc.zeros((4,), axes='b'))", "nn.softmax is over the output axes, and"),
    ("nn.softmax(temperature=0.5)(oc.zeros((4,), axes='b'))", "nn.softmax is over the output axes, and"),
    ("nn.log_softmax()(oc.zeros((4,), axes='b'))", "nn.log_softmax is over the output axes, and"),
    ("nn.layer_norm()(oc.zeros((4,), axes='b'))", "nn.layer_norm is over the output axes, and"),
    ("nn.rms_norm()(oc.zeros((4,), axes='b'))", "nn.rms_norm is over the output axes, and"),
    (
        "train.sgd(lr=0.1).step((oc.param('w', output=2) @ x) ** 2)",
        "a loss is one number, and `(w @ x) ** 2` has axes of 10, 2: take its mean or sum, as in loss.mean()",
    ),
    (
        "train.fit(nn.linear(out_dim=2), [], epochs=1)",
        "fit calls a step, a function that is given a batch, computes the loss, and calls "
        "optimizer.step(loss); found linear(out_dim=2)",
    ),
    ("train.fit([x], len, epochs=1)", "found list: fit(step, batches, epochs=3)"),
    (
        "(oc.param('w', output=2) @ x).numpy()",
        "oc.default_context().init_params(t) gives values to the parameters of a tensor `t`",
    ),
    (
        "oc.Context.cpu(1)[oc.param('w', output=2, input=3)]",
        ": ctx.init_params(t) gives values to the parameters of a tensor `t`, and `ctx[p] = array` to one",
    ),
    (
        "oc.export(oc.Context.cpu().compile(x.sum()), 'model.exe')",
        "the suffix `.exe` of model.exe says no kind of file: a library ends in .o, .obj, .c, .so",
    ),
]


@pytest.mark.parametrize(("program", "message"), MISTAKES)
def test_mistakes(program: str, message: str):
    x = oc.data(np.zeros((10, 3), np.float32), label="x")
    image = oc.data(np.zeros((4, 4, 3), np.float32), label="image")
    with pytest.raises(oc.OcannlError, match=re.escape(message)):
        eval(program, {"oc": oc, "nn": nn, "train": train, "copy": copy, "x": x, "image": image})


def test_a_loss_of_many_numbers():
    """Its gradient is asked for at once, or in code; with weights there may be many."""
    w, x = oc.param("w", output=2), oc.data(np.ones((10, 3), np.float32), label="x")
    with pytest.raises(oc.ShapeError, match="a loss is one number"), oc.code():
        (w @ x).backward()
    with oc.eager():
        with pytest.raises(oc.ShapeError, match="a loss is one number"):
            (w @ x).backward()
        oc.default_context().init_params(w)
        (w @ x).backward(oc.data(np.ones((10, 2), np.float32)))
        np.testing.assert_array_equal(w.grad, np.full((2, 3), 10.0))


def test_gradients_of_many_numbers_are_those_of_their_sum():
    """The gradient of what is derived is 1 everywhere."""
    w, x = oc.param("w", np.ones((2, 3), np.float32)), oc.data(np.ones((10, 3), np.float32), label="x")
    ctx = oc.Context.cpu(1)
    with pytest.warns(UserWarning, match="`w @ x` has axes of 10, 2: gradients are those of their sum"):
        train.update_once(ctx, w @ x)
    np.testing.assert_array_equal(ctx[w.grad], np.full((2, 3), 10.0))


def test_an_update_is_by_any_gradients():
    """Those of many numbers with weights, too: the loss says which parameters."""
    w, x = oc.param("w", np.ones((2, 3), np.float32)), oc.data(np.ones((10, 3), np.float32), label="x")
    with oc.eager():
        (w @ x).backward(oc.data(np.ones((10, 2), np.float32)))
        train.sgd(0.5).update(w @ x)
        np.testing.assert_array_equal(w, np.full((2, 3), -4.0))


@pytest.mark.parametrize(
    ("function", "way"),
    [
        (lambda t: oc.data(np.dot(t, t)), "np.dot is of arrays; functions of `oc`, as oc.einsum and"),
        (lambda t: oc.data(t.sum().numpy()), "write `t.sum()`, the tensor"),
        (lambda t: oc.data(float(t.sum())), "write `t.sum()`, the tensor"),
        (lambda t: oc.data(np.asarray(t)), "write `t`, the tensor"),
    ],
)
def test_values_that_a_traced_function_has_not(function: Callable[[oc.Tensor], oc.Tensor], way: str):
    with pytest.raises(oc.UninitializedError, match=re.escape(way)):
        oc.function(function)(1.0)


@pytest.mark.parametrize(
    ("processes", "message"), [(1, 'engine="threads"'), (2, "but 2 processes run: `mpi")]
)
def test_a_mesh_without_its_processes(processes: int, message: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mpi, "world", lambda timeout: SimpleNamespace(size=processes))
    with pytest.raises(oc.DeviceError, match=re.escape(message)):
        oc.Context.cpu(mesh=oc.Mesh({"data": 4}))


def test_a_way_that_is_named_works():
    x = oc.data(np.arange(6.0).reshape(2, 3), label="x")
    both = oc.concat("b | i; b | j => b | i^j", x, x)
    np.testing.assert_array_equal(oc.Context.cpu(1)[both], np.hstack([np.arange(6.0).reshape(2, 3)] * 2))


def test_a_scan_says_its_axis_where_there_are_others():
    def states(sizes: tuple[int, ...], axis: int | None = None) -> oc.Tensor:
        xs = oc.data(np.ones((*sizes, 5)), axes="b" * len(sizes) + "o", label="xs")
        start = oc.data(np.zeros((20, 5)), label="start")
        return oc.scan(lambda h, x: (h + x, h), start, xs, axis=axis)[0]

    with pytest.raises(oc.ShapeError, match=r"the scan goes along the last batch axis of `xs` \(8,20\|5\)"):
        states((8, 20))
    assert oc.Context.cpu(1)[states((8, 20), axis=0)].shape == (8, 20, 5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "'gpu'; in its place: oc.Context.cuda() or oc.Context.metal()"),
        ("cudda", "did you mean 'cuda'?"),
    ],
)
def test_names_that_the_class_of_contexts_does_not_have(name: str, message: str):
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(oc.Context, name)
    assert not hasattr(oc.Context, "no_such_name")


@pytest.mark.parametrize("values", [(3, 4), (3,)])
def test_values_that_look_like_a_shape(values: tuple[int, ...]):
    message = re.escape(f"{values} are the values that `w` begins with: a shape is given by row, as output=3")
    with pytest.warns(UserWarning, match=message):
        w = oc.param("w", values)
    ctx = oc.Context.cpu()
    ctx.init_params(w)
    assert ctx[w].tolist() == [*values]
