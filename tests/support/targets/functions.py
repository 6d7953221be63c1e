"""Programs that between them call every public function, at sizes around those of tiles and warps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.scalar import accumulators

Array = NDArray[Any]
Values = Mapping[str, Array]
Program = Callable[[oc.Context, Any], Values]

TOTAL = "...|...->... => 0"


def random(dtype: Any, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(dtype)


def computed(ctx: oc.Context, tensors: Mapping[str, oc.Tensor], **indices: int) -> Values:
    """The values of tensors, by one routine."""
    ctx.compile(sum(map(oc.forward, tensors.values()), oc.Code()), name="values")(**indices)
    return {name: ctx[tensor] for name, tensor in tensors.items()}


def parameters(ctx: oc.Context, loss: oc.Tensor) -> Values:
    """All parameters of a loss, and their gradients."""
    found = oc.params(loss)
    return {n: ctx[p] for n, p in found.items()} | {f"{n}.grad": ctx[p.grad] for n, p in found.items()}


def after_step(ctx: oc.Context, loss: oc.Tensor) -> Values:
    """A loss, its gradients, and the parameters after a step."""
    step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1), name="step")
    ctx.init_params(loss, seed=3)
    step()
    return {"loss": ctx[loss], **parameters(ctx, loss)}


def number(tensor: oc.Tensor) -> oc.Tensor:
    """A sum in which cells count differently, by powers."""
    return (tensor + tensor**2 / 2).einsum(TOTAL)


def product(sizes: tuple[int, int, int], ctx: oc.Context, dtype: Any) -> Values:
    """A layer and its gradients; of the sides, one is that of the reduction in each."""
    rows, columns, depth = sizes
    x, w = oc.data(random(dtype, rows, depth)), oc.param("w", random(dtype, columns, depth), dtype=dtype)
    b = oc.param("b", random(dtype, columns), dtype=dtype)
    loss = number(oc.tanh(w @ x + b)) / rows
    return {**after_step(ctx, loss), "x.grad": ctx[oc.grad(loss, x)]}


def batches_of_products(ctx: oc.Context, dtype: Any) -> Values:
    """In all layouts of both operands."""
    a, b = oc.data(random(dtype, 3, 20, 33), axes="boo"), oc.data(random(dtype, 3, 33, 18), axes="boo")
    found: dict[str, oc.Tensor] = {}
    for left, right, result in itertools.product(("i k", "k i"), ("k j", "j k"), ("i j", "j i")):
        x = a if left == "i k" else a.einsum("b | i k => b | k i")
        y = b if right == "k j" else b.einsum("b | k j => b | j k")
        spec = f"b | {left}; b | {right} => b | {result}"
        found[spec] = oc.einsum(spec, x, y)
        found[f"{spec} grad"] = oc.grad(number(found[spec]), a)
    return computed(ctx, found)


def windows(ctx: oc.Context, dtype: Any) -> Values:
    """Convolutions that are contractions, with strides, dilations and padding, and their gradients."""
    found: dict[str, oc.Tensor] = {}
    for name, spec in {
        "plain": "b | h + i, w + j, c; c, i, j -> o => b | h, w, o",
        "padded": "b | h =+ i, w =+ j, c; c, i, j -> o => b | h, w, o",
        "strided": "b | 2*h + i, 3*w + j, c; c, i, j -> o => b | h, w, o",
        "dilated": "b | h + 2*i, w + 3*j, c; c, i, j -> o => b | h, w, o",
        "both": "b | 3*h =+ 2*i, 2*w =+ j, c; c, i, j -> o => b | h, w, o",
    }.items():
        stride_h, stride_w = {"strided": (2, 3), "both": (3, 2)}.get(name, (1, 1))
        span_h, span_w = {"dilated": (5, 7), "both": (5, 3)}.get(name, (3, 3))
        rows, columns = 19, 23
        if "=+" in spec:
            rows, columns = rows // stride_h * stride_h, columns // stride_w * stride_w
        else:
            rows, columns = (
                (rows - span_h) // stride_h * stride_h + span_h,
                (columns - span_w) // stride_w * stride_w + span_w,
            )
        x = oc.data(random(dtype, 2, rows, columns, 17), axes="booo", label="x")
        kernel = oc.data(random(dtype, 20, 17, 3, 3), axes="oiii", label="kernel")
        result = oc.einsum(spec, x, kernel)
        gradients = oc.grad(number(result), [x, kernel])
        found |= {name: result, f"{name} x": gradients[0], f"{name} kernel": gradients[1]}
    return computed(ctx, found)


def masked_attention(ctx: oc.Context, dtype: Any) -> Values:
    """A decoder whose products are tiled, with ids and a mask, in two steps of Adam."""
    rng = np.random.default_rng(0)
    ids, following = (oc.data(rng.integers(0, 33, (2, 24)), axes="bb", label=n) for n in ("ids", "next"))
    with oc.precision(dtype):
        hidden = nn.decoder_only(num_layers=1, num_heads=2, d_k=16, d_v=16, d_ff=40)(
            nn.embedding(num=33, dim=32)(ids), mask=nn.causal_mask(24)
        )
        loss = nn.cross_entropy(nn.linear(out_dim=33)(hidden), following)
    step = ctx.compile(train.grad_update(loss) + train.adam_update(loss, learning_rate=1e-3), name="step")
    ctx.init_params(loss, seed=3)
    step()
    step()
    return {"loss": ctx[loss], **{n: ctx[p] for n, p in oc.params(loss).items()}}


def loops(ctx: oc.Context, dtype: Any) -> Values:
    """Static indices, momentum, and losses that a loop records."""
    batch_n, step_n = oc.index("batch_n", 3), oc.index("step_n")
    xs, ys = oc.data(random(dtype, 3, 10, 7), label="xs"), oc.data(random(dtype, 3, 10, 1), label="ys")
    with oc.precision(dtype):
        model = nn.mlp(hid_dims=[33], out_dim=1)
    loss = nn.mse(model(xs[batch_n]), ys[batch_n]).named("loss")
    rate = 0.1 / (1 + 0.5 * step_n)
    update = train.sgd_update(loss, learning_rate=rate, momentum=0.9, nesterov=True, weight_decay=1e-3)
    step = ctx.compile(train.grad_update(loss) + update, name="step")
    ctx.init_params(loss, seed=2)
    recorded = step.run_loop(epochs=2, advance=[step_n], record=[loss, rate])
    seen = [float(ctx[loss]) for _ in step.loop()]
    step(batch_n=1, step_n=40)
    return {
        "losses": recorded[loss],
        "rates": recorded[rate],
        "seen": np.array(seen),
        **parameters(ctx, loss),
    }


def recipes(ctx: oc.Context, dtype: Any) -> Values:
    """The recipes for one parameter, and those that do everything once."""
    p, q = (oc.param(n, random(dtype, 40, seed=k), dtype=dtype) for k, n in enumerate("pq"))
    loss = ((p * q - 0.3) ** 2).einsum(TOTAL).named("loss")
    steps = oc.node("steps", output=[])
    with oc.code("count") as counted:
        steps += 1
    code = train.grad_update(loss) + counted + train.sgd_one(p, learning_rate=0.1, momentum=0.5)
    code += train.adam_one(q, steps, learning_rate=0.01, weight_decay=0.1)
    step = ctx.compile(code, name="step")
    ctx.init_params(loss)
    for _ in range(3):
        step()
    kept = {"p": ctx[p], "q": ctx[q], "loss": ctx[loss]}
    train.update_once(ctx, loss)
    train.forward_once(ctx, oc.exp(p))
    return kept | {"p.grad": ctx[p.grad], "exp": ctx[oc.exp(p)]}


def optimizers(ctx: oc.Context, dtype: Any) -> Values:
    """Each optimizer, on a matrix of its own, with a schedule, clipping and accumulation."""
    step_n = oc.index("step_n")
    chosen = [
        train.sgd(train.constant(0.1), momentum=0.9, clip_norm=1.0),
        train.adam(train.linear(0.1, 4), accumulate=2),
        train.adamw(train.step(0.1, 2), ema=0.9),
        train.rmsprop(train.exponential(0.01, 0.9)),
        train.adagrad(train.cosine(0.1, 4)),
        train.adadelta(train.warmup_cosine(1.0, 2, 4)),
        train.nadam(train.one_cycle(0.1, 10)),
        train.radam(train.plateau(0.1)),
        train.lamb(train.linear(0.1, 9)(step_n)),
        train.lion(0.01),
        train.muon(0.01),
        train.rprop(),
    ]
    params = [oc.param(o.name, random(dtype, 5, 3, seed=k), dtype=dtype) for k, o in enumerate(chosen)]
    losses = [((p - 0.3) ** 2).einsum(TOTAL) for p in params]
    code = sum((o.step(loss) for o, loss in zip(chosen, losses, strict=True)), oc.Code())
    clipping = train.clip_grad_norm(losses[0], 0.5) + train.clip_grad_value(losses[1], 0.1)
    step = ctx.compile(code + clipping, name="step")
    for loss in losses:
        ctx.init_params(loss)

    def one() -> float:
        step()
        step[step_n] += 1
        return float(ctx[losses[0]])

    train.fit(one, [()], epochs=3, stop=train.early_stopping(), log=[], ctx=ctx)
    gradients = {f"{p.label}.grad": ctx[p.grad] for p in params[:2]}
    return {p.label: ctx[p] for p in params} | gradients


def statements(ctx: oc.Context, dtype: Any) -> Values:
    """Everything that code is made of, in routines apart."""
    p = oc.param("p", random(dtype, 6, 37), output=[6, 37], input=[], dtype=dtype)
    total = oc.node("total", output=6, init=1.0, dtype=dtype)
    seen = oc.node("seen", like=p, init=0.0)
    shifted = p + 1
    with oc.code("seen") as noted:
        seen[...] = oc.relu(p)
        seen += p
        oc.run(oc.accumulate(total, "add", p, spec="o i => o"))
    oc.add_update(shifted, noted)
    loss = number(shifted)
    forward = oc.block_comment("forward", oc.forward(loss) + oc.updates(loss))
    backward = oc.zero_grads(loss) + oc.set(loss.grad, 2) + oc.backprop(loss)
    routines = [ctx.compile(code, name=f"part{k}") for k, code in enumerate((forward, backward))]
    ctx.init_params(loss)
    for routine in routines:
        routine()
    assert set(oc.state(routines)) == {"p", "total"}
    return {n: ctx[t] for n, t in {"loss": loss, "seen": seen, "total": total, "grad": p.grad}.items()}


def accumulations(ctx: oc.Context, dtype: Any) -> Values:
    """Every accumulation over rows and columns of several lengths, from what is there or from nothing."""
    code, nodes = oc.Code(), dict[str, oc.Tensor]()
    for op, length, reset in itertools.product(accumulators(), (1, 31, 33, 1100), (False, True)):
        array = random(dtype, 5, length)
        if op.name in ("or", "and"):
            array = (array > 0).astype(dtype)
        elif op.name == "mul":
            array = 1 + array / 64
        for spec, rows in (("b | o => b", array), ("o | b => b", np.ascontiguousarray(array.T))):
            name = f"{op.name} {spec} {length} {reset}"
            nodes[name] = oc.node("total", output=5, init=1.0, dtype=dtype)
            code += oc.accumulate(nodes[name], op.name, oc.data(rows), spec=spec, reset=reset)
    ctx.compile(code, name="accumulations")()
    return {name: ctx[node] for name, node in nodes.items()}


def derivatives(ctx: oc.Context, dtype: Any) -> Values:
    """Gradients of gradients in both modes, and a gradient of the user's own."""

    @oc.custom_gradient
    def clipped(x: oc.Tensor) -> tuple[oc.Tensor, Any]:
        return x, lambda cotangent: oc.clip(cotangent, -0.5, 0.5)

    w, x = oc.data(random(dtype, 20, 17), axes="oi"), oc.data(random(dtype, 33, 17))
    y = number(oc.virtual(oc.tanh(oc.materialize(w @ x))))
    gradient, pulled = oc.grad(y, w), oc.vjp(w @ clipped(x), x, oc.data(random(dtype, 33, 20, seed=4)))
    tangent = oc.data(random(dtype, 20, 17, seed=3), axes="oi")
    forward = oc.jvp(y, w, tangent)
    curvature = oc.jvp(gradient, w, tangent)
    twice = oc.grad((gradient * oc.stop_gradient(tangent)).einsum(TOTAL), [w, x])
    names = ("gradient", "pulled", "forward", "curvature", "w twice", "x twice")
    return computed(ctx, dict(zip(names, (gradient, pulled, forward, curvature, *twice), strict=True)))


def functions(ctx: oc.Context, dtype: Any) -> Values:
    """Functions of arrays: an update whose loss is the one before it, and derivatives."""
    w = oc.param("w", random(dtype, 20, 17), dtype=dtype)
    oc.seed(1)

    @oc.function(ctx=ctx)
    def step(x: oc.Tensor, rate: oc.Tensor) -> Any:
        loss = number(oc.checkpoint(lambda x: oc.tanh(w @ x))(x))
        oc.run(train.grad_update(loss) + train.sgd_update(loss, learning_rate=rate))
        return {"loss": loss, "after": oc.tanh(w @ x)}

    x = random(dtype, 33, 17)
    found = [step(x, 0.1), step(x[:5], 0.2)]
    bent = oc.function(lambda x: number(oc.tanh(w @ x)).einsum("0 => "), ctx=ctx)
    values = {
        f"{name} {k}": np.asarray(value) for k, each in enumerate(found) for name, value in each.items()
    }
    bend = oc.pointwise(lambda x: oc.tanh(x) * x)
    flat = oc.function(bend, ctx=ctx)
    curved = oc.function(lambda x: oc.tanh(x).einsum("... => "), ctx=ctx)
    return values | {
        "w": ctx[w],
        "jvp": bent.jvp(x, x),
        "vjp": bent.vjp(x),
        "jacobian": oc.jacobian(flat)(x[0, :3]),
        "hessian": oc.hessian(curved)(x[0, :3]),
    }


def eager(ctx: oc.Context, dtype: Any) -> Values:
    """Values at once: gradients, writes, and what was made before them."""
    w = oc.param("w", random(dtype, 20, 17), dtype=dtype)
    found: list[Array] = []
    with ctx, oc.eager():
        for k in range(3):
            loss = number(oc.tanh(w @ oc.data(random(dtype, 33, 17, seed=k)))) / 33
            loss.backward()
            w -= 0.1 * w.grad
            w.grad.zero()
            found.append(loss.numpy())
    return {"w": ctx[w], "losses": np.stack(found)}


def ids(ctx: oc.Context, dtype: Any) -> Values:
    """Gathers and scatters by ids of all types, some of which are not positions; several at one cell."""
    table = oc.data(random(dtype, 9, 21), axes="oo", label="table")
    values = oc.data(random(dtype, 50, 21), label="values")
    chosen = np.random.default_rng(1).integers(-1, 11, 50)
    found: dict[str, oc.Tensor] = {}
    for kind, how in itertools.product((np.int32, np.int64, dtype), ("drop", "clamp")):
        at = oc.data(chosen.astype(kind), axes="b", label="ids")
        name = f"{np.dtype(kind)} {how}"
        gathered = oc.gather("v d; b | => b | d", table, at, at="v", out_of_range=how)
        found[f"gather {name}"] = gathered
        found[f"gather {name} grad"] = oc.grad(number(gathered), table)
        for accum in ("add", "max", "min"):
            spread = oc.scatter("b | d; b | => v d", values, at, at="v", v=9, accum=accum, out_of_range=how)
            spread = oc.maximum(oc.minimum(spread, 9.0), -9.0)
            found[f"scatter {accum} {name}"] = spread
            found[f"scatter {accum} {name} grad"] = oc.grad(number(spread), values)
    found["one hot"] = oc.one_hot(oc.data(chosen, axes="b"), 9) * table.einsum("v d => v")
    return computed(ctx, found)


def random_numbers(ctx: oc.Context, dtype: Any) -> Values:
    n, counter = oc.index("n"), oc.data(np.array([7]), axes="o")
    x = oc.data(random(dtype, 16, 40))
    return computed(
        ctx,
        {
            "uniform": oc.uniform(n, output=[40, 3], key="u", dtype=dtype),
            "without a key": oc.uniform(n, output=1000, low=-2.0, high=3.0, dtype=dtype),
            "normal": oc.normal(n + 1, output=[33, 2], key=5, mean=1.0, std=2.0, dtype=dtype),
            "counted": oc.uniform(counter, like=x, key="c", dtype=dtype),
            "dropout": nn.dropout(rate=0.3)(x, train_step=n),
        },
        n=5,
    )


def leaves(ctx: oc.Context, dtype: Any) -> Values:
    """Parameters of all initial values in a block, constants, ranges, numbers of indices, slices."""

    @oc.block
    def mixed(p: Any, x: oc.Tensor) -> oc.Tensor:
        scaled = p.w(oc.init.normal(), output=17) @ x + p.b(0.5)
        return scaled * oc.constant(2.0) + oc.range(17) / 16

    @oc.configurable
    def halved() -> nn.Layer:
        half = oc.data(np.array(0.5, dtype))
        return lambda x: half * x

    i = oc.index("i", 3)
    x = oc.data(random(dtype, 3, 33, 5), label="x")
    flat = oc.data(random(dtype, 17), flat=True)
    with oc.precision(dtype), oc.scope("outer"):
        y = halved()(mixed()(x[i])) + flat + i * oc.as_tensor(0.25) + x[1].einsum("b | o => 0")
        both = oc.stack([y, oc.cast(y, dtype)], axis="batch")
    joined = oc.concat("b | a; b | c => b | a^c", y, x[2])
    loss = number(both) + number(joined)
    oc.infer(loss)
    gradients = train.grad_update(loss)
    step = ctx.compile(gradients + oc.forward(joined), name="step")
    ctx.init_params(loss, seed=4)
    step(i=2)
    return {"loss": ctx[loss], "joined": ctx[joined], **parameters(ctx, loss)}


def no_points(ctx: oc.Context, dtype: Any) -> Values:
    """Axes of size 0: nothing is stored, and sums of nothing are 0."""
    x, w = oc.data(np.zeros((4, 0), dtype)), oc.data(random(dtype, 3, 4), axes="oi")
    empty, none = oc.data(np.zeros((0, 4), dtype)), oc.data(np.zeros((3, 0), dtype), axes="oi")
    found = {
        "exp": oc.exp(x),
        "sums": x.einsum("b | o => b"),
        "columns": empty.einsum("b | o => o"),
        "layer": w @ empty,
        "deep": none @ x,
        "total": number(w @ empty),
        "gathered": oc.gather("a v |; => a", oc.data(np.zeros((0, 2), dtype), axes="bb"), 1, at="v"),
        "joined": oc.concat("b | a; b | c => b | a^c", x, oc.data(random(dtype, 4, 2))),
    }
    return computed(ctx, found)


def small(kept: Any, used: Any, ctx: oc.Context, dtype: Any) -> Values:
    """A step with parameters kept in one type and used in another, at sizes for tensor cores."""
    x = oc.data(random(np.float32, 48, 40).astype(used), label="x")
    classes = oc.data(np.arange(48) % 20, axes="b", label="classes")
    with oc.precision(kept, compute=used):
        scores = nn.mlp(hid_dims=[32], out_dim=20)(x)
    loss = nn.cross_entropy(oc.cast(scores, oc.float32), classes)
    return {name: np.asarray(a).astype(np.float32) for name, a in after_step(ctx, loss).items()}


SIZES = (
    *((1, 1, 1), (1, 300, 7), (15, 16, 17), (16, 16, 16), (17, 31, 8)),
    *((33, 64, 65), (63, 129, 127), (128, 128, 9)),
)


def random_words(ctx: oc.Context, dtype: Any) -> Values:
    """The words of counters, and numbers made of them."""
    counter = oc.to_uint4x32(oc.data(np.arange(37, dtype=np.int32), axes="b"))
    words = oc.threefry4x32(7, counter, rounds=2)
    numbers = oc.uint4x32_to_prec_uniform(words, dtype)
    return computed(ctx, {"words": words, "all": numbers, "one": oc.uint4x32_to_prec_uniform1(words, dtype)})


PROGRAMS: dict[str, Program] = {
    "random words": random_words,
    **{f"product {'x'.join(map(str, sizes))}": partial(product, sizes) for sizes in SIZES},
    "batches of products": batches_of_products,
    "windows": windows,
    "masked attention": masked_attention,
    "loops": loops,
    "recipes": recipes,
    "optimizers": optimizers,
    "statements": statements,
    "accumulations": accumulations,
    "derivatives": derivatives,
    "functions": functions,
    "eager": eager,
    "ids": ids,
    "random numbers": random_numbers,
    "leaves": leaves,
    "no points": no_points,
}

HALVES = {"f16": oc.float16, "bf16": oc.bfloat16}
QUARTERS = {"f8E5M2": oc.float8_e5m2, "f8E4M3FN": oc.float8_e4m3fn}
SMALL_PROGRAMS: dict[str, Program] = {
    **{f"{name} alone": partial(small, dtype, dtype) for name, dtype in HALVES.items()},
    **{f"{name} and f32": partial(small, np.float32, dtype) for name, dtype in (HALVES | QUARTERS).items()},
}
