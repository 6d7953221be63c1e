"""Arguments that are no tensor, code, name or size are refused in words, where they are given."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import nn, train
from ocannl.program.mistakes.argument_types import fits
from ocannl.program.types import final_types
from ocannl.runtime.cuda.driver import CudaError
from ocannl.runtime.cuda.nccl import NcclError

ANY: Any = oc
ANY_TRAIN: Any = train
ANY_TYPE: Any = np.int8
IDS: Any = np.arange(2)
NN: Any = nn
TRAIN: Any = train
ANY_ARRAYS: Any = np
ARRAY: Any = np.ones(3)
BLOCK: Any = nn.linear(out_dim=2)
NUMBER: Any = 3
LIST: Any = [1.0, 2.0]
LONG: Any = [[1.0] * 30]
TUPLE: Any = ([oc.data([1.0])], [oc.data([2.0])])
NONE: Any = None
TWO: Any = np.int64(2)
DIFF: Any = oc.diff
MISUSES: list[tuple[Callable[[oc.Context, oc.Tensor], object], str]] = [
    (lambda ctx, x: NN.conv2d(in_channels=3), "no argument `in_channels`; it is found where the block is"),
    (lambda ctx, x: oc.params(nn.linear(), trained=True), "by derivatives of a tensor, found a block"),
    (
        lambda ctx, x: oc.accumulate(oc.node("n"), "add", x, spec="... => 0", logic="."),
        "an accumulation has a spec or a logic, found both",
    ),
    (lambda ctx, x: NN.batch_norm2d(num_features=3), "no argument `num_features`; it is found where the"),
    (lambda ctx, x: NN.softmax(dim=-1), "did you mean `spec`, by default '... | ... -> ... d'?"),
    (lambda ctx, x: ANY.zeros((2,), device="cuda"), "no argument `device`; memory is that of a context"),
    (lambda ctx, x: ANY.max(x, x), "a reduction is of one tensor: oc.maximum(a, b), oc.minimum(a, b)"),
    (lambda ctx, x: ANY.node("n", 0), "node: given without a name is only label. Its arguments are label, "),
    (
        lambda ctx, x: ANY_TRAIN.adam(BLOCK, 1e-3),
        "adam: Parameters are given to no optimizer: step(loss) trains",
    ),
    (lambda ctx, x: ANY_TRAIN.batches(x, batch_size=3), "no argument `batch_size`; did you mean `size`?"),
    (
        lambda ctx, x: ANY_TRAIN.batches(x, 2, 3),
        "given without a name are only arrays, size. Its arguments are",
    ),
    (
        lambda ctx, x: ANY_TRAIN.fit(print, ARRAY, ARRAY, epochs=2),
        "fit: batches are one argument: fit(step, train.batches((x, y), size=64), epochs=3)",
    ),
    (
        lambda ctx, x: ANY_TRAIN.fit(print, train.batches(ARRAY), 3),
        "fit: given without a name are only step, batches. Its arguments are step, batches, epochs",
    ),
    (
        lambda ctx, x: DIFF(x),
        "diff: it compares runs; the differences of neighbours are t[..., 1:] - t[..., :-1]",
    ),
    (lambda ctx, x: DIFF(ARRAY), "diff: it compares runs; the differences of neighbours are t[..., 1:]"),
    (lambda ctx, x: DIFF(LIST), "diff: it compares runs; the differences of neighbours are t[..., 1:]"),
    (lambda ctx, x: DIFF(ARRAY, 1), "found ndarray; the differences of neighbours are t[..., 1:]"),
    (lambda ctx, x: DIFF(x, 1), "found Tensor; the differences of neighbours are t[..., 1:] - t[..., :-1]"),
    (lambda ctx, x: train.grad_update(ARRAY), "found an array (ndarray): write `oc.data(array)`"),
    (lambda ctx, x: oc.plan(BLOCK, oc.Mesh({"data": 2})), "a plan is of code, a routine or a"),
    (lambda ctx, x: oc.plan(oc.forward(x), NUMBER), "a plan is for a mesh, as oc.Mesh("),
    (lambda ctx, x: oc.checkpoint(NUMBER), "oc.checkpoint takes a function of tensors, found 3"),
    (lambda ctx, x: nn.cross_entropy(x, ARRAY), "found an array (ndarray): write `oc.data(array)`"),
    (lambda ctx, x: oc.updates(ARRAY), "found an array (ndarray): write `oc.data(array)`"),
    (lambda ctx, x: oc.zero_grads(ARRAY), "found an array (ndarray): write `oc.data(array)`"),
    (lambda ctx, x: oc.backprop(ARRAY), "found an array (ndarray): write `oc.data(array)`"),
    (lambda ctx, x: oc.add_update(ARRAY, oc.forward(x)), "found an array (ndarray): write `oc.data("),
    (lambda ctx, x: oc.node("n", like=ARRAY), "found an array (ndarray): write `oc.data(array)`"),
    (lambda ctx, x: ANY.block_comment("text", x), "a heading stands over code, found Tensor"),
    (lambda ctx, x: ANY.Dim(3), "a dimension is named by a string, found 3"),
    (lambda ctx, x: ANY.scope(3), "a scope is named by a string, found 3"),
    (lambda ctx, x: ANY.relu(x).named(3), "a label is a string, found 3"),
    (lambda ctx, x: ctx.compile(x, name=ANY), "a routine is named by a string, found <module"),
    (lambda ctx, x: ctx.init_params(x, seed=ANY), "a seed is an integer, found <module"),
    (lambda ctx, x: ctx.init_params(x, seed=ANY_TYPE), "a seed is an integer, found <class 'numpy.int8'>"),
    (lambda ctx, x: ctx.init_params(x, seed=IDS), "a seed is an integer, found array([0, 1])"),
    (lambda ctx, x: oc.node("n", output=3, init=10**400), "an initial value is at most 1.8e308"),
    (lambda ctx, x: oc.init.uniform(high=10**400), "high is at most 1.8e308"),
    (lambda ctx, x: oc.init.kaiming(ANY), "gain is a number, found <module"),
    (lambda ctx, x: ANY.function(lambda x: x, 3), "ctx is a context, found 3"),
    (lambda ctx, x: ANY.function(lambda x: x, axes={"x": 3}), "axes are letters by argument, found {'x': 3}"),
    (lambda ctx, x: ANY.function(lambda x: x, axes=3), "axes are letters by argument, found 3"),
    (lambda ctx, x: x[np.array([1.5])], "ids and NumPy masks, found ndarray of float64"),
    (lambda ctx, x: x[[0.0, 1.0]], "ids and NumPy masks, found list of float64"),
    (lambda ctx, x: x[ANY_TYPE], "is indexed by integers, slices, `...`, oc.index, ids and NumPy masks"),
    (lambda ctx, x: ctx.__setitem__(x, ANY), "is set to numbers, found "),
    (lambda ctx, x: ANY.sum(x, axis=0), "there is no argument `axis`"),
    (lambda ctx, x: np.mean(ANY.relu(x), axis=0), "np.mean is of arrays: write oc.mean(t), with axes="),
    (lambda ctx, x: np.max(x * 2), "np.max is of arrays: write oc.max(t), with axes="),
    (lambda ctx, x: len(oc.data(1.0)), "`data` is a single number: it has no length"),
    (lambda ctx, x: ANY.relu(x).max(keepdims=True), "there is no argument `keepdims`"),
    (
        lambda ctx, x: ANY.Mesh({"data": 2}, timeout=ANY_TYPE),
        "the timeout of a mesh, in seconds, is a number",
    ),
    (lambda ctx, x: ANY.Mesh({"data": 2}, timeout=-1), "the timeout of a mesh, in seconds, is not negative"),
    (lambda ctx, x: ANY.Mesh({"data": 2}, timeout=float("inf")), "is less than 1000000000.0, found inf"),
    (lambda ctx, x: ANY.Mesh({"data": 2}, engin="mpi"), "Mesh: there is no argument `engin`; did you mean"),
    (lambda ctx, x: NN.linear(outdim=3), "`outdim`; did you mean `out_dim`?"),
    (lambda ctx, x: ANY.clip(x, min=0), "clip: there is no argument `min`; did you mean `low`?"),
    (lambda ctx, x: NN.conv2d(padding="same"), "found 'same': \"same\" is use_padding=True"),
    (lambda ctx, x: NN.max_pool2d(kernel_size=2), "`kernel_size`; did you mean `window_size`?"),
    (
        lambda ctx, x: TRAIN.adam([x], lr=0.1),
        ". Parameters are given to no optimizer: step(loss) trains those of the loss",
    ),
    (lambda ctx, x: TRAIN.adam({"w": x}), "parameters are given to no optimizer: step(loss) trains those of"),
    (lambda ctx, x: ctx.load("m.pt", x), "'m.pt': PyTorch's arrays are set by oc.interop.from_torch"),
    (lambda ctx, x: ANY.node("n", init=np.ones(2)), "found an array: oc.data(array, label='n') is memory"),
    (lambda ctx, x: [*nn.gru(2)(oc.data(np.ones((3, 4))))], "gives its last states, too, with states=True"),
    (lambda ctx, x: NN.linear(3), "linear: all arguments are given by name. Its arguments are"),
    (lambda ctx, x: TRAIN.batches(batch_size=2), "batches: there is no argument `batch_size`"),
    (lambda ctx, x: TRAIN.plot(["high", "low"]), "what is plotted is numbers"),
    (lambda ctx, x: oc.where(x, LIST, x), "found the list [1.0, 2.0]: write `oc.data([1.0, 2.0])`"),
    (lambda ctx, x: nn.mse(x, LIST), "found the list [1.0, 2.0]: write `oc.data"),
    (lambda ctx, x: ANY.relu([x, x]), "found a list of tensors: oc.stack([...], axis="),
    (lambda ctx, x: ANY.relu(x) @ TUPLE, "combine with a tuple of tensors: oc.stack([...], axis="),
    (lambda ctx, x: x * LONG, "the list [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, ...]]: write"),
    (lambda ctx, x: ANY.maximum(x, 1) + NONE, "a tensor does not combine with None"),
    (lambda ctx, x: ANY.relu({}), "expected a tensor or a number, found an object of type dict"),
    (lambda ctx, x: x * ANY_ARRAYS.complex64(1j), "does not combine with an object of type complex64"),
    (lambda ctx, x: ANY.where(x > 0, ANY_ARRAYS.complex128(1), 0), "found an object of type complex128"),
    (lambda ctx, x: x * ANY_ARRAYS.timedelta64(1, "s"), "combine with an object of type timedelta64"),
    (lambda ctx, x: x * ANY_ARRAYS.array(1j), "does not combine with an array (ndarray)"),
    (lambda ctx, x: x * x.numpy(), "does not combine with an array (ndarray): write `oc.data(array)`"),
]


@pytest.mark.parametrize(("misuse", "message"), MISUSES, ids=[message for _, message in MISUSES])
def test_misuse(misuse: Callable[[oc.Context, oc.Tensor], object], message: str):
    with pytest.raises(oc.ArgumentError) as caught:
        misuse(oc.Context.cpu(), oc.data(np.ones((2, 3)), label="x"))
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{__file__}:")
    assert str(caught.value).count(__file__) == 1


@pytest.mark.parametrize("numbers", [(0, 5, 0), (0, 5, float("nan")), (float("inf"),), (1e30,), (0, 2**80)])
def test_there_is_no_such_range(numbers: Any):
    with pytest.raises(oc.ArgumentError, match="there is no range from "):
        oc.arange(*numbers)


@pytest.mark.parametrize("make", [oc.zeros, oc.ones, oc.eye, oc.arange, lambda n: oc.linspace(0, 1, n)])
def test_want_of_memory_is_told_with_the_line(make: Any):
    with pytest.raises(oc.DeviceError, match="Unable to allocate") as caught:
        make(10**15)
    assert str(caught.value).startswith(f"{__file__}:")


def test_arrays_of_other_libraries_are_no_tensors():
    torch, x = pytest.importorskip("torch"), oc.data(np.ones(3))
    for use in (lambda: x + torch.ones(3), lambda: torch.ones(3) * x, lambda: oc.maximum(x, torch.ones(3))):
        with pytest.raises(oc.ArgumentError, match=r"an array \(Tensor\): write `oc\.data"):
            use()


def test_what_python_needs_as_an_integer_is_static():
    n = oc.data(np.array(2), label="n")
    given: Any = n
    with pytest.raises(
        oc.ArgumentError, match=r"py:\d+: `range\(given\)` needs an integer .* and `n` is a tensor"
    ):
        range(given)
    with pytest.raises(oc.ArgumentError, match=r"int\(\) of it is its value now"):
        ["a", "b"][given]

    @oc.function
    def powers(x: oc.Tensor, n: Any) -> oc.Tensor:
        return sum((x * k for k in range(n)), start=0 * x)

    with pytest.raises(
        oc.ArgumentError, match=r"`range\(n\)`.* is named in oc\.function\(static=\[\.\.\.\]\)"
    ):
        powers(np.ones(3, np.float32), 3)
    with pytest.raises(oc.ArgumentError, match=r"a size in a row .* is an integer, found <n: \(\), i64>"):
        nn.linear(out_dim=given)
    assert not fits(n, int)


def test_what_is_stacked_has_one_shape():
    x, z = oc.data(np.zeros((4, 6)), label="x"), oc.data(np.zeros((4, 5)), label="z")
    with pytest.raises(
        oc.ShapeError, match=r"stacked have one shape: `x` has 4\|6, `z` has 4\|5; oc\.concat"
    ):
        oc.stack([x, z], axis="batch")


def test_settings_are_not_set_by_attributes():
    config: Any = oc.config
    with pytest.raises(AttributeError):
        config.threads = "2"


def test_setting_what_is_no_number_changes_nothing():
    ctx, x = oc.Context.cpu(), oc.data([1.0, 2.0], label="x")
    with pytest.raises(oc.ArgumentError):
        ctx[x] = ANY
    np.testing.assert_array_equal(ctx[x], [1, 2])


@pytest.mark.parametrize("output", [10**12, [10**10, 10**10]])
def test_more_memory_than_there_is(output: int | list[int]):
    huge = oc.param("huge", output=output)
    with pytest.raises(oc.DeviceError, match="bytes for an array of"):
        oc.Context.cpu().init_params(huge)


def test_more_memory_than_there_are_addresses():
    huge = oc.einsum("a => a&b&c", oc.range(3), b=10**10, c=10**10)
    with pytest.raises(oc.OcannlError, match="would take 1200000000000000000000 bytes"):
        oc.Context.cpu()[huge]


def test_integers_that_no_target_holds():
    with pytest.raises(oc.ArgumentError, match="64 bits with a sign, found 9223372036854775808"):
        oc.data(np.array([2**63], np.uint64))


def test_arrays_of_the_other_byte_order():
    x = oc.data(np.arange(3).astype(">f8"))
    np.testing.assert_array_equal(oc.Context.cpu()[x], [0, 1, 2])


@pytest.mark.parametrize("size", [2**63, 10**20])
def test_sizes_that_no_routine_counts_to(size: int):
    x = oc.range(3)
    for misuse in (
        lambda: oc.einsum("a => b", x, b=size),
        lambda: oc.einsum("a => a&b", x, b=size),
        lambda: oc.param("p", output=size),
        lambda: oc.range(size),
        lambda: oc.index("k", size),
    ):
        with pytest.raises(oc.ArgumentError, match=f"is less than 2\\*\\*63, found {size}"):
            misuse()
    step = oc.Context.cpu().compile(oc.forward(x * oc.index("k")))
    with pytest.raises(oc.OcannlError, match="outside the integers of 64 bits"):
        step(k=size)


def test_sizes_are_integers_of_any_kind():
    assert oc.einsum("a => a b", oc.range(3), b=TWO).shape.output == (3, 2)
    with pytest.raises(TypeError, match="the size of `d` is an integer, found 'x'"):
        ANY.Dim("d", "x")


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (
            lambda: nn.lstm(4)(oc.data(np.ones((2, 0, 3)))),
            oc.ArgumentError,
            "a recurrent layer has a state after each position",
        ),
        (lambda: oc.cast(oc.data([1.0]), "bfloat"), oc.PrecisionError, "there is no dtype 'bfloat'"),
        (lambda: oc.cast(oc.data([1.0]), np.uint64), oc.PrecisionError, "no target stores uint64"),
        (lambda: oc.data(np.ones((2, 3)), axes="bx"), oc.SpecError, "axes are letters b, i and o"),
        (lambda: oc.einsum("a=>a"), oc.SpecError, "a spec takes one to three operands, found 0"),
        (lambda: ANY.einsum("a=>a", oc.data([1.0]), a=[2]), oc.SpecError, "is fixed by an integer"),
        (lambda: ANY.einsum("a=>a", oc.data([1.0]), a=ANY_TYPE), oc.SpecError, "is fixed by an integer"),
        (lambda: oc.data([1.0]) + 10**400, oc.ArgumentError, "is at most 1.8e308"),
        (lambda: oc.data([1.0]) + Decimal(10) ** 400, oc.ArgumentError, "is at most 1.8e308"),
        (lambda: oc.constant(10**400), oc.ArgumentError, "is at most 1.8e308"),
        (lambda: round(oc.data([1.0]), 2), oc.ArgumentError, "rounding is to whole numbers"),
        (
            lambda: oc.einsum("..e.., e => e, ..e..", oc.data(np.ones((2, 3)))),
            oc.SpecError,
            "`e` is an axis of '..e.., e => e, ..e..', and `..e..` a row of axes: rename one",
        ),
        (
            lambda: setattr(oc.param("p", output=2), "grad", 1.0),
            oc.OcannlError,
            "`p.grad` is memory: `t.grad[...] = x` or `t.grad *= x` in a code block sets it",
        ),
    ],
)
def test_errors_of_one_line_name_it(build: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=rf"^{re.escape(__file__)}:\d+: .*{re.escape(words)}"):
        build()


@pytest.mark.parametrize("inside", ["", "folder"])
def test_stages_that_cannot_be_written(inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OCANNL_DUMP", str(tmp_path / "file" / inside))
    with pytest.raises(oc.OcannlError, match=r"OCANNL_DUMP=.*file.*: stages cannot be written \(.+\)"):
        oc.Context.cpu(threads=1).compile(oc.data([1.0]) * 2)


CHOICES: list[tuple[str, Callable[[oc.Tensor], object]]] = [
    ("keep", lambda x: ANY.sum(x, 0, keep="a")),
    ("keep", lambda x: ANY.as_tensor(x).mean(0, "a")),
    ("keep", lambda x: ANY.logsumexp(x, keep=0)),
    ("keep", lambda x: ANY.norm(x, keep=None)),
    ("descending", lambda x: ANY.sort(x, 0, descending="a")),
    ("use_padding", lambda x: ANY.einsum("a | b => a", x, use_padding="valid")),
    ("use_padding", lambda x: ANY.as_tensor(x).einsum("a | b => a", use_padding=1)),
    ("trained", lambda x: ANY.params(x, trained="no")),
    ("reverse", lambda x: ANY.scan(lambda c, each: (c, each), 0.0, x, reverse="a")),
    ("flat", lambda x: ANY.data(ARRAY, flat="a")),
    ("reset", lambda x: ANY.accumulate(oc.node("n", output=3), "add", x, spec="a | b => b", reset="a")),
    ("on", lambda x: ANY.eager("compiled")),
    ("log_target", lambda x: NN.kl_div(x, x, log_target="a")),
    ("drop_last", lambda x: TRAIN.batches([np.ones((5, 4))], size=2, drop_last="a")),
    ("reinit", lambda x: ANY.Context.cpu(1).init_params(x, reinit="a")),
    ("check", lambda x: ANY.Context.emulated_gpu(check="a")),
    ("states", lambda x: NN.lstm(hid_dim=3)(x, states="a")),
    ("bias", lambda x: NN.linear(bias="a")),
    ("cache", lambda x: ANY.generate(lambda ids: ids, [1, 2], cache="a")),
]


@pytest.mark.parametrize(("name", "use"), CHOICES)
def test_what_is_true_or_false_is_nothing_else(name: str, use: Callable[[oc.Tensor], object]):
    with pytest.raises(oc.ArgumentError, match=rf"test_misuse\.py:\d+: `{name}` is True or False, found"):
        use(oc.data(np.ones((2, 3), np.float32)))


def test_numbers_of_numpy_choose_too():
    x = oc.data(np.ones((2, 3), np.float32))
    assert ANY.sum(x, 0, keep=np.bool_(True)).ndim == 2


WITHOUT_NUMBERS: list[tuple[Any, str]] = [
    ((n for n in (1, 2)), "found generator: list(...) has what it gives"),
    (map(float, "12"), "found map: list(...) has what it gives"),
    (None, "found NoneType"),
    ([1.0, None], "found an array with objects of Python, such as None"),
    ([[1, "x"]], "found dtype <U"),
    ([{"a": 1}], "such as {'a': 1}"),
]


@pytest.mark.parametrize(("given", "words"), WITHOUT_NUMBERS, ids=[words for _, words in WITHOUT_NUMBERS])
def test_what_has_no_numbers_is_named(given: Any, words: str):
    with pytest.raises(oc.ArgumentError, match=re.escape(words)):
        oc.data(given)


@pytest.mark.parametrize("make", [oc.zeros, oc.ones])
def test_sizes_are_one_argument(make: Any):
    with pytest.raises(oc.ArgumentError, match=re.escape("sizes are one argument, as (2, 3)")):
        make(2, 3)


def test_dtypes_of_pytorch():
    torch = pytest.importorskip("torch")
    assert oc.zeros(2, torch.float16).dtype == np.float16
    assert oc.cast(oc.data([1.0]), torch.bfloat16).dtype == oc.bfloat16
    with pytest.raises(oc.PrecisionError, match=re.escape("there is no dtype torch.complex64")):
        oc.zeros(2, torch.complex64)


def test_truth_of_many_elements():
    with oc.eager(), pytest.raises(oc.ArgumentError, match=re.escape("oc.all(t) is true where all are")):
        bool(oc.data([1.0, 2.0]) > 0)


def test_blocks_have_no_twins():
    """A copy would share the parameters."""
    block = nn.mlp(hid_dims=[3], out_dim=2)
    assert copy.copy(block) is block
    for twin in (copy.deepcopy, lambda one: copy.deepcopy([one])):
        with pytest.raises(oc.ArgumentError, match=re.escape("mlp(hid_dims=[3], out_dim=2) is not copied")):
            twin(block)
    with pytest.raises(oc.ArgumentError, match=re.escape("is not pickled: `ctx.save(path, block)`")):
        pickle.dumps(block)


def test_errors_are_named_as_they_are_imported():
    public = [getattr(oc, name) for name in oc.__all__ if name.endswith("Error")]
    assert public
    assert {kind.__module__ for kind in public} == {"ocannl"}


FROM_ELSEWHERE = (
    oc.ArgumentError("no"),
    oc.PositionError("far"),
    oc.ShapeError("a|b"),
    CudaError("out", "CODE"),
    NcclError("lost", 3),
)


@pytest.mark.parametrize("error", FROM_ELSEWHERE, ids=lambda error: type(error).__name__)
def test_errors_come_from_other_processes_as_they_were(error: oc.OcannlError):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_transpose_infers_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(final_types, "_types_there", None)
    assert isinstance((oc.param("w") @ oc.data(np.ones(3))).T, oc.Tensor)


def test_a_transpose_that_changes_nothing_is_told(recwarn: pytest.WarningsRecorder):
    x = oc.data(np.ones((3, 2)), label="x")
    pairs = ((x[:, None] - x[None]) ** 2).sum(-1).named("pairs")
    assert all(isinstance(t.T, oc.Tensor) for t in (x, x.sum(-1), x.sum(), oc.param("w")))
    assert not recwarn.list
    with pytest.warns(UserWarning, match="has batch axes only") as told:
        assert pairs.T.numpy().shape == (3, 3)
    assert str(told[0].message).endswith(
        "`.T` swaps the output and the input row, and changes nothing; "
        "oc.rearrange(t, 'a b -> b a', axes='bb') is NumPy's transpose"
    )
