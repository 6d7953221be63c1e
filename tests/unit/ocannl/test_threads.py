"""Several threads, and forks: building, compiling, looking and running."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from inspect import unwrap
from typing import Any

import numpy as np
import pytest

import ocannl as oc
from ocannl import train
from ocannl.runtime import random
from ocannl.runtime.collector import collector_paused
from ocannl.runtime.compile import Executable, compile_module
from ocannl.runtime.host.normal_numbers import compiled_normals
from ocannl.runtime.host.random_words import compiled_words
from ocannl.runtime.locks import once, shared

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
CHILD_SECONDS = 120


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs `work` in several threads, and raises what the first of them that failed raised."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def in_child(work: Callable[[], None]) -> None:
    """Runs `work` in a forked process, and asserts that it comes to its end."""
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(CHILD_SECONDS)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def busy_switching() -> Generator[None]:
    """The interpreter changes threads after 10 us each."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_CACHE", "off")


def training_step(w: oc.Tensor, x: oc.Tensor) -> tuple[oc.Tensor, oc.Code]:
    loss = (oc.relu(w @ x) ** 2).einsum("...|...=>0").named("loss")
    return loss, train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)


def scaling(factor: float, size: int = 4) -> tuple[oc.Tensor, oc.Tensor]:
    x = oc.data(np.arange(size, dtype=np.float32), axes="o", label="x")
    return x, (x * factor).named("scaled")


class TestBuilding:
    def test_on_one_shared_parameter(self, busy_switching: None):
        w = oc.param("w", output=3)
        x = oc.data(np.ones((4, 2), np.float32), axes="bo", label="x")
        texts: set[str] = set()

        def build(number: int) -> None:
            for _ in range(4):
                _, code = training_step(w, x)
                str(w.shape)
                texts.add(code.ir())

        in_threads(8, build)
        assert len(texts) == 1
        oc.infer(training_step(w, x)[0])
        assert w.shape == "2->3"

    def test_with_errors_meanwhile(self, busy_switching: None):
        w = oc.param("w")

        def build(number: int) -> None:
            for _ in range(20):
                if number % 2:
                    with pytest.raises(oc.ShapeError):
                        _ = oc.data(np.ones((1, 2)), axes="bo") + oc.data(np.ones((1, 3)), axes="bo") + w
                else:
                    assert (w @ oc.data(np.ones((5, 2)), axes="bo")).shape.is_final is False

        in_threads(4, build)
        assert w.shape.input == (..., 2)

    def test_with_compiling_and_looking(self, busy_switching: None, no_cache: None):
        w = oc.param("w", output=3)
        x = oc.data(np.ones((4, 2), np.float32), axes="bo", label="x")
        ctx = oc.Context.cpu(threads=1)
        found: set[float] = set()

        def compile_one(number: int) -> None:
            loss, _ = training_step(w, x)
            step = ctx.compile(oc.forward(loss), name="step")
            ctx.init_params(loss)
            step()
            found.add(float(ctx[loss]) - float(ctx[loss * 1.0]))

        in_threads(3, compile_one)
        assert found == {0.0}

    def test_decides_anew_what_another_thread_has_decided(self, monkeypatch: pytest.MonkeyPatch):
        """A vector is added to a parameter; meanwhile another thread adds one number to it."""
        b = oc.param("b", input=[], batch=[])
        ctx = oc.Context.cpu(threads=1)
        calls: list[int] = []

        def compile_other(number: int) -> None:
            ctx.compile(b + oc.data(np.ones(1), axes="o"))

        def compiling(*arguments: Any, **named: Any) -> Executable:
            executable = compile_module(*arguments, **named)
            calls.append(len(calls))
            if calls == [0]:
                in_threads(1, compile_other)
            return executable

        monkeypatch.setattr("ocannl.execute.context.compile_module", compiling)
        ctx.compile(b + oc.data(np.ones(3), axes="o"))
        assert b.shape == "1"
        assert calls == [0, 1, 2]

    def test_the_collector_goes_on_when_no_thread_pauses(self):
        inside, leave = threading.Event(), threading.Event()

        def pause() -> None:
            with collector_paused():
                inside.set()
                leave.wait()

        thread = threading.Thread(target=pause)
        thread.start()
        inside.wait()
        with collector_paused():
            pass
        assert not gc.isenabled()
        leave.set()
        thread.join()
        assert gc.isenabled()


class TestOneRoutine:
    def test_in_two_threads(self):
        """The second of two threads raises while the first one runs; afterwards either may run it."""
        i = oc.index("i", 2)
        x = oc.data(np.zeros((2, 2), np.float32), axes="bo", label="x")
        step = oc.Context.cpu(threads=1).compile(oc.forward(x[i] * 2.0), name="step")
        inside, leave = threading.Event(), threading.Event()

        def slow() -> None:
            inside.set()
            leave.wait()

        call, step._call = step._call, slow
        thread = threading.Thread(target=step)
        thread.start()
        inside.wait()
        attempts: list[Callable[[], object]] = [
            *(step, lambda: step(i=1), lambda: step.__setitem__(i, 1), step.run_loop),
            *(step.profile, lambda: list(step.loop())),
        ]
        for attempt in attempts:
            with pytest.raises(oc.OcannlError, match="routine 'step' is running in another thread"):
                attempt()
        leave.set()
        thread.join()
        step._call = call
        for attempt in attempts:
            attempt()

    def test_after_an_error(self):
        x = oc.param("x", output=2)
        step = oc.Context.cpu(threads=1).compile(oc.forward(x * 2.0), name="step")
        for _ in range(2):
            with pytest.raises(oc.UninitializedError):
                step()

    def test_several_of_one_context(self, busy_switching: None):
        ctx = oc.Context.cpu(threads=1)
        made = [scaling(float(number)) for number in range(4)]
        steps = [ctx.compile(scaled, name="step") for _, scaled in made]

        def run(number: int) -> None:
            for _ in range(50):
                steps[number]()

        in_threads(4, run)
        for number, (x, scaled) in enumerate(made):
            np.testing.assert_array_equal(ctx[scaled], ctx[x] * number)


@needs_fork
@pytest.mark.parametrize("is_compiled", [False, True])
def test_random_numbers_are_drawn_while_the_caller_holds_the_lock(
    is_compiled: bool, monkeypatch: pytest.MonkeyPatch
):
    """The threads that draw do not wait for it, whether the code that they run is compiled before or not."""
    monkeypatch.setenv("OCANNL_THREADS", "2")
    monkeypatch.setattr(random, "LEAST_COMPILED_NORMAL", 1)
    for make in (compiled_words, compiled_normals):
        anew = once(unwrap(make))
        monkeypatch.setattr(random, make.__name__, anew)
        if is_compiled:
            anew()

    def draw() -> None:
        with shared:
            random.uniform(random.stream_key(1, "w"), (300_000,))
            random.normal(random.stream_key(1, "w"), (300_000,))

    in_child(draw)


@needs_fork
class TestFork:
    def test_while_others_compile(self, no_cache: None):
        stop = threading.Event()
        compiled = threading.Semaphore(0)

        def keep_compiling() -> None:
            while not stop.is_set():
                oc.Context.cpu(threads=1).compile(scaling(2.0)[1])
                compiled.release()

        def child() -> None:
            scaled = scaling(3.0)[1]
            assert oc.Context.cpu()[scaled].tolist() == [0.0, 3.0, 6.0, 9.0]
            assert gc.isenabled()

        threads = [threading.Thread(target=keep_compiling) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(4):
                compiled.acquire()
                in_child(child)
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def test_while_another_thread_runs_the_routine(self):
        scaled = scaling(2.0)[1]
        ctx = oc.Context.cpu(threads=1)
        step = ctx.compile(scaled, name="step")
        inside, leave = threading.Event(), threading.Event()

        def slow() -> None:
            inside.set()
            leave.wait()

        def child() -> None:
            step._call = call
            step()
            assert ctx[scaled].tolist() == [0.0, 2.0, 4.0, 6.0]

        call, step._call = step._call, slow
        thread = threading.Thread(target=step)
        thread.start()
        inside.wait()
        in_child(child)
        leave.set()
        thread.join()
