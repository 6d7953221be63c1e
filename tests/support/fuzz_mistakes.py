"""Looks for mistakes in programs that are not told of in words, at the user's line.

    python -m support.fuzz_steadily mistakes 10000 --folder found      # in tests/

Each program is a right one with one or two mistakes: letters of names that are lost or exchanged, other
types, specs and sizes, negative numbers, None, arguments that are missing or exchanged. It runs, or raises an
error of ocannl that names its line, or one that Python or NumPy raise in the program itself.
"""

from __future__ import annotations

import ast
import os
import random
import resource
import tempfile
import traceback
from collections.abc import Sequence
from functools import cache

import numpy as np

import ocannl as oc
from ocannl import nn, train

FILE = "program.py"
TOGETHER = 4
MEMORY = 12 << 30
"""Bytes of addresses, beyond which a program that asks for more is refused."""
TYPES = ("np.int8", "np.bool_", "np.complex64", "'float31'", "oc.bfloat16", "np.float64", "None", "str")
NUMBERS = ("0", "1", "-1", "None", "2.5", "'3'", "True", "2**40", "10**400", "float('nan')", "[2, 3]", "oc")
SPECS = (
    "...|o -> i",
    "b|i => ",
    "a b",
    "=>",
    "a,b=>b,,a",
    "b|o;b|i=>b",
    "é",
    "0x",
    "..a..|b => b",
    "a=>a=>a",
)

PROGRAMS = (
    """
x = oc.data(X, label="x")
w = oc.param("w", output=4)
h = oc.tanh(w @ x + oc.param("b", 0.0, output=4))
loss = oc.einsum("...|... => 0", h * h).named("loss")
step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1, momentum=0.9))
ctx.init_params(loss, seed=3)
step()
ctx[loss]
""",
    """
i = oc.index("i", 6)
x = oc.data(X, label="x")
total = oc.node("total", output=3, init=0.0)
with oc.code("sum") as code:
    total += x[i]
    total[1:3] *= 0.5
step = ctx.compile(code, name="sum")
step(i=2)
step.run_loop(epochs=2, record=[total])
ctx[total]
""",
    """
model = nn.mlp(hid_dims=[8, 4], out_dim=2, label="m")
y = model(oc.data(X, label="x"))
loss = nn.cross_entropy(y, oc.data(IDS, axes="b"))
train.update_once(ctx, loss)
ctx[loss]
""",
    """
images = oc.data(IMAGES, axes="bbbo", label="images")
y = nn.max_pool2d()(nn.conv2d(out_channels=3, kernel_size=3)(images))
y = nn.batch_norm2d()(y, train_step=oc.index("n"))
step = ctx.compile(oc.forward(y.sum()))
ctx.init_params(y)
step(n=1)
""",
    """
x = oc.data(X, label="x")
ys, last = oc.scan(lambda c, t: (0.5 * c + t, c * t), oc.zeros(3), x, reverse=True)
flag = oc.cond(oc.data(1), lambda t: t * 2, lambda t: oc.exp(t), last)
ctx.compile(ys.forward + flag.forward)()
ctx[ys]
""",
    """
a = oc.data(IDS, axes="b", label="a")
b = oc.data(np.arange(6, dtype=np.uint8), axes="b")
c = (a + b) % 5 // 2 & 3
d = oc.where(c < 2, oc.cast(c, np.float32), 0.5)
ctx[oc.cumsum(d, 0)]
ctx[oc.sort(c, axis=0)]
""",
    """
x = oc.data(X, label="x")
y = oc.rearrange(x, "(a b) c -> a c b", a=2)
z = oc.einsum("a, c, b; b, d => a, d", y, oc.data(X[:3], axes="oo"))
part = z[1:, ::2]
joined = oc.concat("a | x; a | y => a | x ^ y", x, 2 * x)
ctx[part], ctx[joined], ctx[oc.sum(z, axes=0, keep=True)]
""",
    """
layer = nn.multi_head_attention(num_heads=2, d_k=4, d_v=4, out_dim=6, cache=nn.kv_cache(length=8))
step = oc.function(lambda x: layer(x), ctx)
step(SEQUENCES[:, :2])
step(SEQUENCES[:, 2:3])
""",
    """
@oc.function(ctx=ctx, axes={"x": "bo", "ids": "b"})
def f(x, ids, rate=0.1):
    logits = nn.linear(out_dim=5, label="head")(x)
    loss = nn.cross_entropy(logits, ids)
    train.grad_update(loss)
    train.adam_update(loss, learning_rate=rate)
    return {"loss": loss, "best": oc.argmax(logits, -1)}
f(X, IDS, 0.5)
""",
    """
mesh = oc.Mesh({"data": 2}, engine="threads", timeout=30)
ranks = oc.Context.cpu(mesh=mesh, threads=2)
x = oc.data(X, label="x", shard={"batch": "data"})
loss = nn.mse(nn.linear(out_dim=2)(x), 0.5)
step = ranks.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
ranks.init_params(loss)
step()
""",
    """
ids = oc.data(IDS, axes="b", label="ids")
table = nn.embedding(num=5, dim=32)
with ctx:
    ctx.init_params(table.w)
    small = nn.quantized(table, "q8_0")
    rows = small(ids)
    ctx[rows]
m = oc.node("m", output=[5, 3], init=0.0)
with oc.code("write") as code:
    m[ids] += oc.data(X, axes="oo")
    m[...] = oc.maximum(m, 0.1)
ctx.compile(code)()
""",
    """
p = oc.param("p", [1.0, 2.0, 3.0])
y = oc.einsum("... => 0", oc.sin(p) ** 2)
g = oc.grad(y, p)
t = oc.jvp(g, p, 1.0)
ctx.init_params(y)
ctx[g], ctx[t]
u = oc.uniform(oc.index("n"), output=[2, 3], key="u", low=-1, high=1)
ctx.compile(oc.forward(u))(n=7)
ctx.save(PATH, [y])
""",
)


def typo(name: str, chance: random.Random) -> str:
    at = chance.randrange(len(name))
    other = chance.choice("aeinorst_")
    return chance.choice(
        (name[:at] + name[at + 1 :], name[:at] + other + name[at:], name[:at] + other + name[at + 1 :])
    )


class Mistake(ast.NodeTransformer):
    """One change, of the node with a number."""

    def __init__(self, at: int, chance: random.Random) -> None:
        self.at, self.chance = at, chance

    def visit(self, node: ast.AST) -> ast.AST:
        self.at -= 1
        if self.at == 0:
            return self.changed(node)
        return super().generic_visit(node)

    def changed(self, node: ast.AST) -> ast.AST:
        chance = self.chance
        match node:
            case ast.Constant(value=str(written)):
                other = chance.choice((typo(written or "x", chance), chance.choice(SPECS)))
                return chance.choice((ast.Constant(other), expression(chance.choice(NUMBERS))))
            case ast.Constant():
                return expression(chance.choice(NUMBERS))
            case ast.Attribute() if isinstance(node.value, ast.Name) and node.value.id in ("np", "oc"):
                if chance.random() < 0.3:
                    return expression(chance.choice(TYPES))
                node.attr = typo(node.attr, chance) or "x"
            case ast.Attribute():
                node.attr = typo(node.attr, chance) or "x"
            case ast.keyword() if node.arg:
                if chance.random() < 0.5:
                    node.arg = typo(node.arg, chance) or "x"
                else:
                    node.value = expression(chance.choice(NUMBERS + TYPES))
            case ast.Call() if node.args and chance.random() < 0.7:
                match chance.randrange(4):
                    case 0:
                        node.args.pop(chance.randrange(len(node.args)))
                    case 1:
                        chance.shuffle(node.args)
                    case 2:
                        node.args.append(node.args[0])
                    case _:
                        node.args[chance.randrange(len(node.args))] = expression(chance.choice(NUMBERS))
            case ast.Call() if node.keywords:
                node.keywords.pop(chance.randrange(len(node.keywords)))
            case ast.Name() if isinstance(node.ctx, ast.Load):
                return expression(chance.choice(("None", "X", "IDS", "x", "loss", "ctx", "3", "oc", "nn")))
            case ast.List() | ast.Tuple() if node.elts and isinstance(node.ctx, ast.Load):
                node.elts.pop()
            case _:
                pass
        return node


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def program(number: int) -> str:
    chance = random.Random(f"mistakes {number}")
    text = chance.choice(PROGRAMS)
    for _ in range(chance.choice((1, 1, 2))):
        tree = ast.parse(text)
        changed = Mistake(chance.randrange(2, 2 + sum(1 for _ in ast.walk(tree))), chance).visit(tree)
        text = ast.unparse(ast.fix_missing_locations(changed))
    return text


def run(text: str) -> str | None:
    """Tells what is wrong with how a program ends; None where nothing is."""
    chance = np.random.default_rng(0)
    names: dict[str, object] = {"oc": oc, "nn": nn, "train": train, "np": np}
    names |= {"ctx": oc.Context.cpu(threads=1), "IDS": np.array([0, 3, 1, 4, 2, 0]), "PATH": "state"}
    names |= {"X": chance.normal(size=(6, 3)).astype(np.float32)}
    names |= {"IMAGES": chance.normal(size=(2, 8, 8, 2)).astype(np.float32)}
    names |= {"SEQUENCES": chance.normal(size=(2, 4, 6)).astype(np.float32)}
    try:
        code = compile(text, FILE, "exec")
    except SyntaxError:
        return None
    try:
        exec(code, names)
    except oc.OcannlError as error:
        return None if f"{FILE}:" in str(error) else f"{type(error).__name__} without a line: {error}"
    except Exception as error:  # Whatever it is, it is what is looked for.
        last = traceback.extract_tb(error.__traceback__)[-1]
        is_own = last.filename == FILE or "numpy" in last.filename
        place = last.filename.rpartition("/ocannl/")[2]
        is_name = isinstance(error, AttributeError) and "has no part" in str(error)
        told = is_name or (isinstance(error, AttributeError | TypeError) and FILE in str(error))
        return None if is_own or told else f"{type(error).__name__} at {place}:{last.lineno}: {error}"
    return None


class Failure(Exception):
    """How a program ends that is not told of, and the program."""


@cache
def bounded() -> None:
    """Has this process write files into a folder of its own, and have no more than so much memory."""
    os.chdir(tempfile.mkdtemp(prefix="mistakes"))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def run_cases(numbers: Sequence[int]) -> dict[str, int]:
    """Raises `Failure` for the first program that ends otherwise than it should."""
    bounded()
    for number in numbers:
        text = program(number)
        if what := run(text):
            raise Failure(f"{what}\n{text}")
    return {"programs": len(numbers)}
