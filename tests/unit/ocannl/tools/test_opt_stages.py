"""`ocannl-opt` reads the text of every stage, and goes on from it as the compiler does."""

from __future__ import annotations

import numpy as np
import pytest
from support.opt_tool import PASSES, STAGES, Opt, check_report, moons, passes_after

import ocannl as oc
from ocannl import train


class TestStages:
    @pytest.mark.sampled(9)
    @pytest.mark.parametrize("stage", STAGES)
    def test_a_stage_prints_to_itself(self, stage: str, opt: Opt):
        text = moons(stage)
        done = opt(text)
        assert (done.code, done.err) == (0, "")
        assert done.out.strip() == text.strip()

    @pytest.mark.sampled(29)
    @pytest.mark.parametrize("stage", STAGES)
    def test_the_remaining_passes_give_the_same_end(self, stage: str, opt: Opt):
        rest = passes_after(stage)
        done = opt(moons(stage), *(["-p", ",".join(rest)] if rest else []))
        assert (done.code, done.err) == (0, "")
        assert done.out == moons("loops")

    @pytest.mark.parametrize("stage", ["texpr", "infer-projections", "mask-padding"])
    def test_derivatives_of_operands_that_are_equal(self, stage: str, opt: Opt):
        """A square has two operands, each with a derivative; a function of points reads one twice."""

        @oc.pointwise
        def cubed(v: oc.Tensor) -> oc.Tensor:
            return v * v * v

        w, x = oc.param("w", output=3), oc.data(np.ones((4, 2), np.float32), label="x")
        y = w @ x
        code = train.grad_update(oc.sum(y * y + cubed(y)))
        rest = PASSES[PASSES.index(stage) + 1 if stage in PASSES else 0 : PASSES.index("differentiate") + 1]
        assert opt(code.ir(stage), "-p", ",".join(rest)).out == code.ir("differentiate")

    @pytest.mark.exhaustive
    @pytest.mark.sampled(7)
    @pytest.mark.parametrize("stage", ["assign", "texpr", "infer-shapes", "fuse", "loops"])
    def test_the_same_llvm(self, stage: str, opt: Opt):
        rest = passes_after(stage)
        done = opt(moons(stage), *(["-p", ",".join(rest)] if rest else []), "-t", "llvm")
        assert (done.code, done.out) == (0, moons("llvm"))

    @pytest.mark.exhaustive
    def test_what_python_compiles(self, opt: Opt):
        assert opt(moons("texpr"), "-p", "cpu").out == moons("loops")
        llvm = opt(moons("texpr"), "-p", "cpu", "-t", "llvm").out
        assert llvm == moons("llvm")
        assert "define" in llvm

    @pytest.mark.exhaustive
    @pytest.mark.sampled(9)
    @pytest.mark.parametrize("name", PASSES)
    def test_one_pass_at_a_time(self, name: str, opt: Opt):
        place = PASSES.index(name)
        before = moons(PASSES[place - 1] if place else "texpr")
        done = opt(before, "-p", name)
        assert (done.code, done.err) == (0, "")
        assert done.out.strip() == moons(name).strip()

    @pytest.mark.sampled(9)
    @pytest.mark.parametrize("name", PASSES)
    def test_a_pass_twice_is_no_crash(self, name: str, opt: Opt):
        """Passes may run again on what they gave: they change nothing, or say why not."""
        done = opt(moons(name), "-p", name)
        assert done.code in (0, 1)
        if done.code:
            check_report(done)

    @pytest.mark.sampled(8)
    @pytest.mark.parametrize("name", PASSES)
    @pytest.mark.parametrize("stage", ["texpr", "assign", "loops"])
    def test_a_pass_on_another_level_is_no_crash(self, name: str, stage: str, opt: Opt):
        done = opt(moons(stage), "-p", name)
        if done.code:
            check_report(done)

    def test_the_text_of_an_expression(self, opt: Opt):
        x = oc.data(np.ones((4, 3)), label="x")
        y = oc.tanh(oc.param("w", output=2) @ x)
        for stage in STAGES:
            done = opt(y.ir(stage))
            assert (done.code, done.out.strip()) == (0, y.ir(stage).strip())


@pytest.mark.parametrize("type", ["...b2147483647", "?d2147483647"])
def test_numbers_of_variables_are_no_counts(type: str, opt: Opt):
    text = (
        f'texpr.routine @f {{\n  %a = texpr.data "a" : !texpr.tensor<{type}, f32>\n  texpr.forward %a\n}}\n'
    )
    done = opt(text, "-p", "infer-shapes")
    assert done.code == 0, done.err
    assert "2147483647" not in done.out
