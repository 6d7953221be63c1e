"""Random numbers as arithmetic: the generator's known answers, and the numbers of the specification."""

import numpy as np
import pytest
from support import random_reference
from support.arith_interpreter import Array, run
from support.random_reference import KNOWN_ANSWERS, word_array
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, f32, f64, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from ocannl.dialects.loops import UniformOp
from ocannl.dialects.scalar.arith_builder import ScalarType
from ocannl.dialects.scalar.streams import Stream
from ocannl.dialects.scalar.threefry import threefry4x32
from ocannl.passes.loops.expand_math import ExpandMathPass
from ocannl.passes.loops.expand_math.builder import MathBuilder
from ocannl.passes.loops.expand_math.uniform import EmittedWords


def signed(words: np.ndarray) -> list[Array]:
    return [np.array([word], np.uint32).view(np.int32) for word in words]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("rounds", "counter", "key", "answer"), KNOWN_ANSWERS)
@pytest.mark.parametrize("type_", [f32, f64])
def test_known_answers(rounds: int, counter: str, key: str, answer: str, type_: ScalarType):
    for place, expected in enumerate(signed(word_array(answer))):
        block = Block(arg_types=[i32] * 4)
        builder = MathBuilder(type_)
        key_words = [int(word) for word in word_array(key)]
        words = threefry4x32(block.args, key_words, EmittedWords(builder), rounds)
        block.add_ops([*builder.ops, ReturnOp(words[place])])
        np.testing.assert_array_equal(run(block, signed(word_array(counter))), expected)


PLACES = np.array([0, 1, 2, 3, 1000, 2**31 - 1, 2**31, 2**32 - 1], np.uint64)
COUNTERS = np.array([0, 1, 7, 2**31, 2**32, 2**63, 2**64 - 1, 12345], np.uint64)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("place_type", [i32, i64])
@pytest.mark.parametrize("type_", [f32, f64])
def test_numbers_are_those_of_the_specification(type_: ScalarType, place_type: IntegerType, second: bool):
    places = PLACES if place_type == i32 else PLACES * np.uint64(2**31 + 1)
    block = Block(arg_types=[place_type, i64])
    op = UniformOp(Stream("a key", second), block.args[0], block.args[1], type_)
    block.add_ops([op, ReturnOp(op.result)])
    module = ModuleOp([FuncOp("f", ([place_type, i64], [type_]), Region(block))])
    ExpandMathPass().apply(Context(), module)
    module.verify()
    own = places.astype(np.uint32).view(np.int32) if place_type == i32 else places.view(np.int64)
    found = run(block, [own, COUNTERS.view(np.int64)])
    dtype = np.float32 if type_ == f32 else np.float64
    expected = random_reference.number(random_reference.block("a key", places, COUNTERS), dtype, second)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)
