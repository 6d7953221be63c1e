"""A function that writes words of Threefry's stream, as LLVM IR text. The key is data, so that one function
serves all streams.
"""

from __future__ import annotations

from ocannl.dialects.records import dataclass
from ocannl.dialects.scalar.threefry import ROUNDS, ROUNDS_PER_KEY, mixed
from ocannl.lowering.llvm.builder import FunctionBuilder
from ocannl.lowering.llvm.types import ValueType, vector
from ocannl.lowering.loops_to_llvm.transpose import interleave
from ocannl.passes.analysis.targets.target import TargetDescription

NAME = "threefry words"
I32 = ValueType("i32", "i32", 4)
# The words of the key schedule stand one after the other.
SCHEDULE = [range(4 * n, 4 * n + 4) for n in range(ROUNDS // ROUNDS_PER_KEY + 1)]


def blocks_at_once(target: TargetDescription) -> int:
    """How many blocks the function computes at once: one in each lane of a vector."""
    return target.vector_bytes // I32.bytes


def threefry_words(target: TargetDescription) -> str:
    """The text of `void f(ptr schedule, i64 first, i64 stop, ptr words)`: it writes the four words each of
    the blocks of the stream from `first` to `stop`, multiples of `blocks_at_once` that are not equal.
    """
    b, type = FunctionBuilder(), vector(I32, blocks_at_once(target))
    emitted = VectorWords(b, type)
    loop = b.open_loop("%first", "%stop", type.width)
    low = b.emit(f"trunc i64 {loop.index} to i32")
    high = b.emit(f"trunc i64 {b.emit(f'lshr i64 {loop.index}, 32')} to i32")
    lanes = ", ".join([f"i32 {lane}" for lane in range(type.width)])
    counter = [b.emit(f"add {type.text} {emitted.all(low)}, <{lanes}>"), emitted.all(high)]
    rows = mixed([*counter, "zeroinitializer", "zeroinitializer"], SCHEDULE, emitted)
    place = b.emit(f"sub i64 {loop.index}, %first")
    start = b.emit(f"getelementptr [4 x i32], ptr %words, i64 {place}")
    for k, words in enumerate(interleave(b, rows, type)):
        at = b.emit(f"getelementptr {type.text}, ptr {start}, i64 {k}")
        b.emit_void(f"store {type.text} {words}, ptr {at}, align {I32.bytes}")
    b.close_loop(loop)
    head = f'define void @"{NAME}"(ptr %schedule, i64 %first, i64 %stop, ptr %words) nounwind {{'
    return "\n".join([head, b.text(), "  ret void", "}", *sorted(b.declarations)]) + "\n"


@dataclass(frozen=True, slots=True)
class VectorWords:
    """The generator's operations on vectors of words; words of the key are places in the schedule."""

    b: FunctionBuilder
    type: ValueType

    def all(self, word: str) -> str:
        """A vector of equal words."""
        return self.b.splat(word, self.type, self.type.width, self.b.depth)

    def add(self, word: str, key_word: int) -> str:
        at = self.b.emit(f"getelementptr i32, ptr %schedule, i64 {key_word}")
        added = self.b.emit(f"load i32, ptr {at}, align {I32.bytes}")
        return self.b.emit(f"add {self.type.text} {word}, {self.all(added)}")

    def mix(self, a: str, b: str, rotation: int) -> tuple[str, str]:
        text, name = self.type.text, f"@llvm.fshl.{self.type.mangled}"
        self.b.declarations.add(f"declare {text} {name}({text}, {text}, {text})")
        total = self.b.emit(f"add {text} {a}, {b}")
        turned = self.b.emit(f"call {text} {name}({text} {b}, {text} {b}, {text} splat (i32 {rotation}))")
        return total, self.b.emit(f"xor {text} {turned}, {total}")
