"""The benchmark compares like with like, and sees what becomes slower."""

import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import kernels
import measure
import nests
import numpy as np
import planning
import processes
import pytest
from baseline import Saved, changes, load, save, summaries
from measure import Measured
from models import IN_F32, LARGE, ON_GPUS
from problems import STEPS, module_of
from processes import Failed, Missing, Worker
from report import ratios_text
from run import GROUPS
from steps import PROBLEMS
from support.layering import ROOT, SUPPORT, TESTS
from support.nests import parse_module
from support.pages import table

import ocannl as oc
from ocannl.models.gpt2 import gpt2


def double(module: str, what: Any) -> dict[str, Any]:
    """PyTorch's results in float64."""
    pytest.importorskip("torch").set_num_threads(1)
    runs = import_module(module).Runs(what, double=True)
    runs.first()
    return runs.values()


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        atol = 1e-5 * np.abs(array).max()
        np.testing.assert_allclose(np.reshape(found[name], np.shape(array)), array, rtol=1e-4, atol=atol)


def assert_same_losses(name: str) -> None:
    """As PyTorch's, and the same when they are computed again."""
    problem = STEPS[name]()
    steps = import_module(module_of(name, "ocannl")).Runs(problem)
    first = steps.first()
    found = steps.values()
    assert first == found["losses"][0]
    assert_close(found, double(module_of(name, "torch"), problem))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_losses_are_those_of_pytorch(name: str, monkeypatch: pytest.MonkeyPatch):
    """All passes leave well-formed code, too."""
    monkeypatch.setenv("OCANNL_VERIFY", "1")
    assert_same_losses(name)


@pytest.mark.exhaustive
def test_the_losses_of_a_transformer_are_those_of_pytorch():
    assert_same_losses("gpt2_quick")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in LARGE if name != "gpt2"])
def test_the_losses_of_models_are_those_of_pytorch(name: str):
    assert_same_losses(f"{name}_quick")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in LARGE if name in IN_F32])
def test_the_losses_of_models_are_those_of_jax(name: str):
    pytest.importorskip("jax")
    problem = STEPS[f"{name}_quick"]()
    runs = import_module(module_of(name, "jax")).Runs(problem)
    assert_close(runs.values(), double(module_of(name, "torch"), problem))


@pytest.mark.exhaustive
def test_the_time_of_a_token():
    pytest.importorskip("transformers")
    printed = run("float32", "q8_0", "--quick", "--rounds", "1", "--tokens", "4", file="decoding.py")
    assert [line.split()[0] for line in printed.splitlines()[2:]] == ["float32", "q8_0"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["moons", "lenet"])
def test_the_losses_are_those_of_numpy(name: str):
    problem = PROBLEMS[name]()
    steps, expected = (import_module(f"steps_{peer}").Runs(problem) for peer in ("ocannl", "numpy"))
    steps.first()
    assert_close(steps.values(), expected.values())


SMALL = {"b": 2, "h": 3, "i": 4, "j": 5, "d": 7}


@pytest.mark.parametrize("peer", ["ocannl", "numpy"])
@pytest.mark.parametrize(
    "kernel",
    [
        *(kernels.kernel(f"gemm_{transposed}_5x3x4") for transposed in ("nn", "nt", "tn", "tt")),
        kernels.kernel("gemm_nt_5x3x4_f64"),
        *(
            kernels.product(kernels.OTHERS[f"attention_{part}"].product, **SMALL)
            for part in ("scores", "mix")
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.product,
)
def test_peers_compute_the_same_product(peer: str, kernel: kernels.Kernel):
    data = kernels.data_of(kernel)
    runs = import_module(f"kernels_{peer}").Runs(kernel)
    runs.first()
    assert runs.values()["y"].dtype == (np.float64 if kernel.precision == "f64" else np.float32)
    exact = np.einsum(kernel.product, data.x.astype(float), data.other.astype(float))
    assert_close(runs.values(), {"y": exact})


def test_many_kernels_have_a_summary():
    assert ratios_text({"a": 2.0, "b": 0.5, "c": 0.96}).splitlines() == [
        "3 kernels: geometric mean x0.99, at least x1 in 33%",
        "x0.50 b",
    ]


def test_products_of_halves():
    """Of operands that are rounded to bf16 for all, in sums that are rounded once."""
    kernel = kernels.kernel("gemm_nt_20x30x40_bf16")
    assert (kernel.precision, kernel.product) == ("bf16", "ik,jk->ij")
    runs = import_module("kernels_ocannl").Runs(kernel)
    runs.first()
    found, expected = runs.values()["y"], double("kernels_torch", kernel)["y"]
    np.testing.assert_allclose(found, expected, rtol=2**-8, atol=1e-3)
    assert not np.array_equal(found, expected)


def test_a_convolution_with_its_gradient_is_that_of_pytorch():
    kernel = kernels.kernel("convolution_backward")
    runs = import_module("kernels_ocannl").Runs(kernel)
    runs.first()
    assert_close(runs.values(), double("kernels_torch", kernel))


@pytest.mark.parametrize("of", ["", "_image", "_kernel"])
@pytest.mark.parametrize("window", ["3x3", "3x3_by2", "1x1_by2"])
def test_a_convolution_alone_is_that_of_pytorch(window: str, of: str):
    name = f"conv_6x5x7_{window}{of}"
    kernel = kernels.kernel(name)
    assert isinstance(kernel, kernels.Convolution)
    runs = import_module(module_of(name, "ocannl")).Runs(kernel)
    runs.first()
    assert_close(runs.values(), double(module_of(name, "torch"), kernel))


@pytest.mark.exhaustive
@pytest.mark.parametrize("suffix", ["", "_backward", "_bf16", "_bf16_backward"])
def test_attention_is_that_of_pytorch(suffix: str):
    name = f"attention_24x3x8{suffix}"
    kernel = kernels.kernel(name)
    assert kernel.flops == 2 * 8 * 3 * 24**2 * 8 * (3 if kernel.backward else 1)
    runs = import_module(module_of(name, "ocannl")).Runs(kernel)
    runs.first()
    assert set(runs.values()) == {"y", *(f"{part}.grad" for part in "qkv" if kernel.backward)}
    expected = double(module_of(name, "torch"), kernel)
    measure.verify(runs.values(), expected, measure.tolerance_of(name))


def test_models_that_fill_a_gpu():
    assert {name.partition("_")[0] for name in ON_GPUS} <= {name.partition("_")[0] for name in LARGE}
    assert measure.tolerance_of("vit_256_tf32") == measure.TOLERANCES["tf32"]
    assert "gpt2_1k_bf16" in ON_GPUS


def saved(seconds: float, noise: float = 0.02, peer: float = 1.0, version: str = "1") -> Saved:
    return {
        ("add", "ocannl", "0.1", 1): {"call": (seconds, noise)},
        ("add", "numpy", version, 1): {"call": (peer, 0.1)},
    }


@pytest.mark.parametrize(
    ("now", "is_slower"),
    [
        (saved(1.04), False),
        (saved(1.06), True),
        (saved(0.9), False),
        (saved(1.06, noise=0.1), False),
        (saved(1.2, peer=1.2), False),
        (saved(1.0, peer=0.9), False),
        (saved(1.2, peer=1.2, version="2"), True),
    ],
)
def test_what_is_slower_beyond_the_noise(now: Saved, is_slower: bool):
    (change,) = changes(saved(1.0), now)
    assert change.is_slower == is_slower


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (planning.GPT2, "124.4 M"),
        *(
            pytest.param(config, count, marks=pytest.mark.exhaustive)
            for config, count in ((planning.GPT_7B, "7467.8 M"), (planning.GPT_18B, "18449.8 M"))
        ),
    ],
)
def test_models_of_plans_have_the_published_parameters(config: dict[str, Any], count: str):
    """Their embedding gives the scores, too."""
    scores = gpt2(config)(oc.data(np.zeros((1, 4), np.int32), axes="bb"))
    oc.infer(scores)
    sizes = [math.prod(p.shape.array) for p in oc.params(scores).values()]
    assert f"{sum(sizes) / 1e6:.1f} M" == count


def test_the_noise_is_how_much_the_fastest_differ():
    measured = Measured("add", "ocannl", "0.1", 1, call=[3.0, 1.1, 9.0, 1.0, 1.05], warm=[2.0])
    ((_, kinds),) = summaries([measured]).items()
    assert kinds == {"call": (1.0, pytest.approx(0.1)), "warm": (2.0, 0.0)}


def test_what_is_measured_again_replaces_what_was_saved(tmp_path: Path):
    path = tmp_path / "saved.json"
    other: Saved = {("add", "ocannl", "0.1", 2): {"call": (3.0, 0.1)}}
    save(path, "a processor", saved(1.0) | other)
    save(path, "a processor", saved(2.0, version="2"))
    assert load(path, "a processor") == saved(2.0, version="2") | other
    with pytest.raises(SystemExit, match="was measured on a processor; this is another"):
        load(path, "another")
    save(path, "another", other)
    assert load(path, "another") == other
    assert load(path, "a processor") == saved(2.0, version="2") | other


def test_the_baseline_has_every_benchmark():
    text = (ROOT / "bench" / "baseline.json").read_text()
    found = re.findall(r'^\["(\w+)", "ocannl", "[^"]+", 1,', text, re.MULTILINE)
    assert set(found) == {name for group in GROUPS.values() for name in group}


def test_the_readme_has_the_numbers_of_the_baseline():
    saved = load(ROOT / "bench" / "baseline.json", "AMD EPYC (znver5)")
    times = {(name, peer): kinds for (name, peer, _, threads), kinds in saved.items() if threads == 1}
    rows = table(ROOT / "README.md", "step | OCANNL")
    assert [row[0].split("`")[1] for row in rows] == [*PROBLEMS]
    for what, ours, *others in rows:
        found = [times[what.split("`")[1], peer] for peer in ("ocannl", "jax", "torch")]
        call, first = ([kinds[kind][0] for kinds in found] for kind in ("call", "cold"))
        number, unit = ours.split()
        assert float(number) * {"us": 1e-6, "ms": 1e-3}[unit] == pytest.approx(call[0], rel=0.05)
        ratios = [f"x{call[1] / call[0]:.1f}", f"x{call[2] / call[0]:.1f}"]
        assert others == [*ratios, *(f"{seconds:.2g} s" for seconds in first)]


class FakeWorker:
    """A peer that computes `y`, unless its name says otherwise."""

    def __init__(self, peer: str, *_: object) -> None:
        self.peer = peer

    def ask(self, command: str, *_: int | str) -> object:
        if (self.peer, command) in {("raises", "first"), ("ends", "call")}:
            raise Failed("it is broken")
        if (self.peer, command) == ("lacks", "build"):
            raise Missing("it has none")
        return None if command == "loop" else 0.5

    def values(self) -> dict[str, np.ndarray]:
        return {"y": np.array([1, 2, np.nan if self.peer == "errs" else 3], np.float32)}

    def __enter__(self) -> "FakeWorker":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_peer_that_fails_ends_nothing_but_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measure, "Worker", FakeWorker)
    peers = ("errs", "raises", "lacks", "works", "ends")
    names = ["gemm_2x2x2", "add_2x2"]
    found = list(measure.measure(names, measure.Options(peers, rounds=2)))
    assert [{one.peer: (one.failure, one.call) for one in results} for results in found] == [
        {
            "errs": ("y[2] is nan, and 3.0 in float64", []),
            "raises": ("it is broken", []),
            "works": ("", [0.5 / calls, 0.5 / calls]),
            "ends": ("it is broken", []),
        }
        for calls in map(measure.calls_of, names)
    ]


@pytest.mark.parametrize("allowed", [True, False])
def test_a_gpu_rounds_operands_where_all_do(allowed: bool):
    """PyTorch's convolutions do by default."""
    torch = pytest.importorskip("torch")
    import_module("steps_torch").allow_tf32(allowed)
    assert torch.backends.cudnn.allow_tf32 == torch.backends.cuda.matmul.allow_tf32 == allowed


@pytest.mark.exhaustive
def test_a_worker_goes_on_after_what_it_raises(tmp_path: Path):
    with Worker("numpy", 1, str(tmp_path)) as worker:
        before = worker.process.pid
        with pytest.raises(Failed, match="AttributeError: 'NoneType' object has no attribute 'first'"):
            worker.ask("first")
        assert worker.process.pid != before
        worker.ask("build", "gemm_2x3x4")
        assert worker.ask("first") > 0
        worker.process.kill()
        worker.process.wait()
        with pytest.raises(Failed, match="it ended with exit status -9"):
            worker.ask("first")
        worker.ask("build", "gemm_2x3x4")


def test_a_worker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As one whose kernel never ends."""
    with Worker("numpy", 1, str(tmp_path)) as worker:
        with monkeypatch.context() as patch:
            patch.setattr(processes, "MOST_SECONDS", 0.01)
            with pytest.raises(Failed, match="it ended with exit status -9"):
                worker.ask("build", "gemm_2x3x4")
        worker.ask("build", "gemm_2x3x4")


def run(*options: str, file: str = "run.py", settings: Mapping[str, str] | None = None) -> str:
    command = [sys.executable, str(ROOT / "bench" / file), *options]
    environment = os.environ | dict(settings or {})
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.exhaustive
def test_a_gpu_is_checked_and_timed():
    """Where the driver is a stand-in, so that PyTorch has no GPU."""
    path = {"PYTHONPATH": os.pathsep.join([str(SUPPORT / "fake_cuda"), str(TESTS)])}
    names = ["moons", "gemm_nt_5x3x4", "layer_norm_8x16_backward"]
    printed = run(*names, "--rounds", "1", "--copy", "4096", file="gpu.py", settings=path)
    assert printed.startswith("Fake GPU, sm_80, CUDA 12.8; copies: ")
    assert re.search(r"^moons +step by step", printed, re.MULTILINE)
    assert re.search(r"^gemm_nt_5x3x4 .* GFLOP/s", printed, re.MULTILINE)
    assert re.search(r"copy\nlayer_norm_8x16_backward +0\.\d\d$", printed, re.MULTILINE)


@pytest.mark.exhaustive
def test_the_time_of_each_nest():
    printed = run("moons", file="nests.py")
    assert "w1.grad" in printed
    assert printed.splitlines()[-1].endswith("us all")


SHRINKING = """
loops.func @f attributes {arena = 64 : i64} {
  %x = assign.node "x" on_device : memref<16xf32>
  %y = assign.node "y" local at 0 : memref<16xf32>
  loops.nest "x" (i = 16) {
    %0 = loops.load %x[i]
    %1 = arith.mulf %0, %0 : f32
    loops.store %1, %x[i]
    loops.store %1, %y[i]
  }
  loops.nest "y" (i = 16) {
    %2 = loops.load %x[i]
    %3 = loops.load %y[i]
    %4 = arith.addf %2, %3 : f32
    loops.store %4, %y[i]
  }
}"""


def test_each_nest_is_timed_on_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch):
    """The denormals that one has made of an array in many runs would slow down the next one."""
    arrays, smallest = list[Any](), list[float]()
    made = nests.random_array
    monkeypatch.setattr(nests, "random_array", lambda shape: arrays.append(made(shape)) or arrays[-1])

    def run_often(call: Callable[[], object]) -> float:
        smallest.append(min(np.abs(array).max() for array in arrays))
        for _ in range(20):
            call()
        return 1.0

    monkeypatch.setattr(nests, "fastest", run_often)
    assert len(list(nests.time_steps(parse_module(SHRINKING)))) == 2
    assert min(smallest) > 0.01


@pytest.mark.exhaustive
def test_the_command_prints_tables_and_saves_them(tmp_path: Path):
    path = tmp_path / "saved.json"
    quick = ["--rounds", "1", "--first-rounds", "1", "--peer", "ocannl", "--save", str(path)]
    printed = run("moons", "layer_norm_8x16_backward", *quick)
    assert re.search(r"^moons +step by step", printed, re.MULTILINE)
    assert re.search(r"^layer_norm_8x16_backward .* GB/s", printed, re.MULTILINE)
    assert {name for name, *_ in load(path, printed.partition(", ")[0])} == {
        "moons",
        "layer_norm_8x16_backward",
    }
