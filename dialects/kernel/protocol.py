"""The agreement of the roles of a block about stages, which the verifier follows step by step.

Consumers wait for all stages that are filled, in order, read the arrays of those that have come and are not
released, and release each stage once, when its products are done. No wait is for what never comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ocannl.dialects.index.bounds import BoundsAttr
from ocannl.dialects.index.linear import Linear, Space, SpaceAttr
from ocannl.dialects.index.memref import is_ring
from ocannl.dialects.index.scopes import scopes
from ocannl.dialects.kernel.launch import ROLES
from ocannl.dialects.kernel.mma import MmaOp, WaitProductsOp
from ocannl.dialects.kernel.point import PointOp, numbered, points_of
from ocannl.dialects.kernel.stages import AwaitOp, FillOp, ReleaseOp, StageOp
from ocannl.dialects.loops import LoadOp
from ocannl.dialects.records import dataclass


def check_protocol(producer: Block, consumer: Block, rings: Collection[SSAValue], stages: int) -> None:
    """Raises `VerifyException` where one role does not do what the other one waits for."""
    (fill,) = (op for op in producer.walk() if isinstance(op, FillOp))
    waits = [op for op in consumer.walk() if isinstance(op, AwaitOp)]
    if len(waits) != 1:
        raise VerifyException(f"the consumers have one `{AwaitOp.name}`, found {len(waits)}")
    (wait,) = waits
    filling, waiting = way_to(fill), way_to(wait)
    for op, way in ((fill, filling), (wait, waiting)):
        if op.stage != numbered(way.space):
            raise VerifyException(
                f"stages are counted in order: `{op.name}` of `{op.stage}` is that of `{numbered(way.space)}`"
            )
    if filling.steps != waiting.steps:
        raise VerifyException("consumers wait for the stages that are filled, at the same points")
    loop = waiting.loop
    own: Collection[str] = () if loop is None else spaced(loop)
    before = Linear(tuple(term for term in wait.stage.terms if term[0] not in own))
    turn = Turn(loop, before, rings, stages)
    turn.run(consumer, {})
    turn.end()


@dataclass
class Way:
    """The loops and points around an operation in its role, from the outside in.

    Attributes:
        steps: what they are, whatever their variables are called.
        loop: the innermost one with a body that is run again and again.
    """

    space: Space = ()
    steps: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    names: dict[str, Linear] = field(default_factory=dict[str, Linear])
    loop: Operation | None = None


def way_to(op: StageOp) -> Way:
    way = Way()
    around = list(scopes(op))
    inside = next(k for k, scope in enumerate(around) if scope.name == ROLES)
    for scope in reversed(around[:inside]):
        if any(isinstance(p, BoundsAttr) for p in scope.properties.values()):
            raise VerifyException(f"`{op.name}` stands under no bound")
        sizes = spaced(scope)
        if isinstance(scope, PointOp):
            way.steps.append(("point", *sizes.values(), scope.at.number.substitute(way.names)))
        else:
            way.steps += [("loop", size) for size in sizes.values()]
            way.space += tuple(sizes.items())
            way.loop = scope
        for name in sizes:
            way.names[name] = Linear.var(f"{len(way.names)}")
    return way


def spaced(scope: Operation) -> dict[str, int]:
    """The variables of a loop or a point."""
    return {
        name: size for p in scope.properties.values() if isinstance(p, SpaceAttr) for name, size in p.data
    }


@dataclass
class Turn:
    """One run of the innermost loop that waits for stages, which are counted from its first one on.

    Attributes:
        before: the number of that, by the variables of the loops around.
        awaited, released: how many stages.
        flying: the stages that groups of async products read, for those that nobody has waited for.
    """

    loop: Operation | None
    before: Linear
    rings: Collection[SSAValue]
    stages: int
    awaited: int = 0
    released: int = 0
    flying: list[set[int]] = field(default_factory=list[set[int]])

    def run(self, block: Block, values: Mapping[str, int]) -> None:
        for op in block.ops:
            match op:
                case AwaitOp():
                    self.wait(self.stage(op.stage, values))
                case ReleaseOp():
                    self.release(self.stage(op.stage, values))
                case WaitProductsOp():
                    del self.flying[: max(0, len(self.flying) - op.pending.data)]
                case LoadOp():
                    self.read(op, values)
                case _ if op.regions:
                    self.enter(op, values)
                case _:
                    pass

    def enter(self, op: Operation, values: Mapping[str, int]) -> None:
        """Follows an operation with a body; loops around that of the turn run once."""
        if not any(isinstance(inner, StageOp) for inner in op.walk()):
            self.use(op, values)
            return
        points: Iterable[Mapping[str, int]] = points_of(spaced(op)) if op is self.loop else [{}]
        for point in points:
            known = {**values, **point}
            if all(holds(op, known)):
                self.run(op.regions[0].block, known)
        if any(isinstance(inner, MmaOp) for inner in op.walk()):
            self.flying.clear()

    def use(self, op: Operation, values: Mapping[str, int]) -> None:
        """Reads what an operation inside of which nobody waits for stages does; its products may go on."""
        loads = [inner for inner in op.walk() if isinstance(inner, LoadOp)]
        read = {stage for load in loads if (stage := self.read(load, values)) is not None}
        if any(isinstance(inner, MmaOp) and inner.is_async for inner in op.walk()):
            self.flying.append(read)

    def read(self, load: LoadOp, values: Mapping[str, int]) -> int | None:
        """The stage that a load reads, None if it reads none."""
        if load.node not in self.rings or not is_ring(load.node):
            return None
        stage = self.stage(load.indices.data[0], values)
        if not self.released <= stage < self.awaited:
            how = "has not waited for" if stage >= self.awaited else "has released"
            raise VerifyException(f"a consumer reads stage `{load.indices.data[0]}`, which it {how}")
        return stage

    def wait(self, stage: int) -> None:
        if stage - self.stages >= self.released:
            raise VerifyException(
                f"consumers wait for a stage {stage} that is never filled: "
                f"stage {stage - self.stages} has its arrays, and is not released before"
            )
        self.awaited = stage + 1

    def release(self, stage: int) -> None:
        if stage != self.released or stage >= self.awaited:
            raise VerifyException(
                f"stages are released once, in order, after the wait for them: found stage {stage} "
                f"after {self.released} of {self.awaited}"
            )
        if any(stage in group for group in self.flying):
            raise VerifyException(f"a product in flight still reads stage {stage}, which is released")
        self.released += 1

    def stage(self, number: Linear, values: Mapping[str, int]) -> int:
        """The number of a stage from the first one of the turn on."""
        known = {name: Linear((), value) for name, value in values.items()}
        own = (number + self.before * -1).substitute(known)
        if own.terms:
            raise VerifyException(f"`{number}` is no stage of the loop that waits for them")
        return own.constant

    def end(self) -> None:
        if self.released < self.awaited:
            raise VerifyException(f"consumers release {self.released} of {self.awaited} stages")


def holds(op: Operation, values: Mapping[str, int]) -> list[bool]:
    """Whether bounds hold, those that are known."""
    known = {name: Linear((), value) for name, value in values.items()}
    bounds = [bound for p in op.properties.values() if isinstance(p, BoundsAttr) for bound in p.data]
    at = [(bound.index.substitute(known), bound.below) for bound in bounds]
    return [index.constant < below for index, below in at if index.is_constant]
