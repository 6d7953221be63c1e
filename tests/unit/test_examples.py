"""The example programs learn what they are given."""

import re
import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import char_lm
import cifar
import digits
import diloco
import lenet_digits
import makemore
import moons
import moons_page
import nanogpt
import numpy as np
import pinn
import pytest
import surgery
import tensor_puzzles
import vae

import ocannl as oc

MPIRUN = Path(sys.executable).parent / "mpirun"


def trained_moons(seed: int, epochs: int = 80) -> moons.Trained:
    points, classes = moons.half_moons(moons.BATCHES * moons.BATCH_SIZE, seed)
    return moons.train_moons(points, classes, epochs, seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_moons_are_told_apart(seed: int):
    assert trained_moons(seed).history.epoch_losses.min() < 0.1


def test_one_seed_gives_the_same_bits():
    first, second = (trained_moons(seed=1, epochs=3).history.losses for _ in range(2))
    assert np.array_equal(first.view(np.uint32), second.view(np.uint32))


def test_the_moons_program_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    picture = tmp_path / "moons.png"
    moons.main(["--epochs", "2", "--plain", "--png", str(picture)])
    printed = capsys.readouterr().out
    for title in ("Loss", "Log-loss", "Learning rate", "Decision boundary"):
        assert title in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(shutil.which("wasm-ld") is None, reason="there is no wasm-ld")
def test_the_moons_page_goes_on_learning(tmp_path: Path):
    loss = moons_page.main([str(tmp_path / "moons.html")])
    assert loss < 1
    if BROWSER is None:
        pytest.skip("there is no Chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [BROWSER, *options, "--virtual-time-budget=5000", "--dump-dom", str(tmp_path / "moons.html")]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    found = re.search(r"<output>([\d.]+)</output>", page)
    assert found is not None
    assert float(found[1]) < loss


def test_digits_are_read():
    assert digits.main(["--plain"]) >= 0.95


@pytest.mark.exhaustive
def trained_workers(mesh: oc.Mesh | None) -> diloco.Trained:
    images, shown = digits.digits(seed=1)
    images = images.astype(np.float64)
    return diloco.diloco(mesh, images[:400], shown[:400], images[400:], workers=4, rounds=2, epochs=2)


@pytest.mark.exhaustive
def test_workers_that_train_apart_are_those_of_one_device_and_send_little():
    one, several = (trained_workers(mesh) for mesh in (None, oc.Mesh({"workers": 4}, engine="threads")))
    np.testing.assert_allclose(several.losses, one.losses, rtol=0, atol=1e-12)
    np.testing.assert_allclose(several.logits, one.logits, rtol=0, atol=1e-12)
    for name, value in one.parameters.items():
        np.testing.assert_allclose(several.parameters[name], value, rtol=0, atol=1e-12)
    # Of small arrays each rank sends the whole to 3 others; and in each step it sends its part of the loss.
    rounds, steps = 2, len(several.losses)
    assert several.sent <= 3 * rounds * sum(p.nbytes for p in one.parameters.values()) + 3 * 8 * steps
    assert several.sent_by_data_parallel > 7 * several.sent


@pytest.mark.exhaustive
def test_digits_are_read_by_workers_that_train_apart():
    assert diloco.main(["--ranks", "2"]) >= 0.95


@pytest.mark.exhaustive
@pytest.mark.skipif(find_spec("mpi4py") is None or not MPIRUN.exists(), reason="mpi4py or MPICH is missing")
def test_workers_are_processes_too(capsys: pytest.CaptureFixture[str]):
    command = [str(MPIRUN), "-n", "2", sys.executable, diloco.__file__, "--engine", "mpi"]
    options = ["--ranks", "2", "--rounds", "2"]
    found = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=True)
    diloco.main(options)
    assert found.stdout == capsys.readouterr().out


@pytest.mark.exhaustive
def test_the_character_model_learns_and_writes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """In full it reaches 1.0 nats a character; this is a small one for a short time."""
    monkeypatch.setattr(char_lm, "CONTEXT", 32)
    sizes = ["--layers", "1", "--width", "32", "--steps", "150", "--length", "40"]
    trained = char_lm.main([*sizes, "--plain"])
    printed = capsys.readouterr().out
    assert "Loss, in nats a character" in printed
    assert trained.losses[0] > 4
    assert trained.final_loss < 3
    start = char_lm.TEXT.read_text()[: char_lm.CONTEXT]
    written = trained.writer.write(start, 40, temperature=0.8, seed=1)
    assert written.startswith(start)
    assert len(written) == len(start) + 40
    assert written in printed
    assert trained.writer.write(start, 40, temperature=0.8, seed=1) == written


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_digits_are_read_by_convolutions(seed: int):
    trained = lenet_digits.main(["--plain", "--seed", str(seed)])
    assert trained.accuracy >= 0.98
    assert trained.epoch_losses[-1] < trained.epoch_losses[0] / 10


def test_images_are_shifted():
    image = np.zeros((1, 8, 8, 1), np.float32)
    image[0, 3, 4] = 1
    for down, right in lenet_digits.SHIFTS:
        moved = lenet_digits.shifted(image, down, right)
        assert moved.shape == image.shape
        assert moved[0, 3 + down, 4 + right] == 1


def test_the_tensor_puzzles_are_solved():
    solved = tensor_puzzles.main(["--tries", "2"])
    assert len(solved) == 21
    assert all(solved.values()), solved


GPT = "--layers 1 --heads 2 --width 16 --context 16 --batch 4 --length 9 --rate 0.03"


def test_a_gpt_learns_and_writes():
    trained = nanogpt.main([*GPT.split(), "--steps", "16"])
    assert np.mean(trained.losses[-4:]) < trained.losses[0] - 0.1
    assert len(trained.text) == 9


@pytest.mark.exhaustive
def test_a_gpt_goes_on_where_it_was(tmp_path: Path):
    """After a checkpoint was lost, training from the one before gives the same bits."""
    options = [*GPT.split(), "--steps", "30", "--every", "15", "--runs", str(tmp_path)]
    whole = nanogpt.main(options)
    (tmp_path / "step-000000030.safetensors").unlink()
    resumed = nanogpt.main(options)
    assert resumed.losses == whole.losses[15:]
    assert resumed.validation == whole.validation
    assert resumed.text == whole.text
    for name, entry in whole.state.items():
        np.testing.assert_array_equal(
            resumed.context[resumed.state[name]], whole.context[entry], err_msg=name
        )


def test_sampling():
    scores, rng = np.array([1.0, 2.0, 1.5, 0.5]), np.random.default_rng(1)

    def ids(temperature: float = 1.0, top_k: int = 4, top_p: float = 1.0) -> set[int]:
        return {nanogpt.sampled(scores, rng, temperature, top_k, top_p) for _ in range(200)}

    assert ids() == {0, 1, 2, 3}
    assert ids(top_k=2) == {1, 2}
    assert ids(top_p=0.45) == {1}
    assert ids(top_p=0.46) == ids(top_p=0.73) == {1, 2}
    assert ids(temperature=0.05) == {1}


class TestCifar:
    """Small: no blocks, few images, of which the last batch has fewer."""

    options = ("--images", "20", "--batch", "8", "--width", "4", "--depth", "0", "--rate", "0.05")

    @pytest.mark.exhaustive
    def test_it_stops_early_with_the_best(self, tmp_path: Path):
        trained = cifar.main([*self.options, "--epochs", "30", "--patience", "3", "--runs", str(tmp_path)])
        found = [epoch["test_accuracy"] for epoch in trained.history]
        assert len(found) < 30
        assert trained.history[-1]["loss"] < trained.history[0]["loss"]
        assert trained.accuracy == trained.best.metric == max(found) >= max(found[-3:])
        assert (tmp_path / "log.csv").read_text().count("\n") == 1 + len(found)

    def test_images_of_the_file_are_read(self, tmp_path: Path):
        image = np.arange(32 * 32 * 3).reshape(32, 32, 3).astype(np.uint8)
        record = bytes([7]) + np.moveaxis(image, -1, 0).tobytes()
        for name, count in (("data_batch_1", 2), ("data_batch_2", 1), ("test_batch", 1)):
            (tmp_path / f"{name}.bin").write_bytes(count * record)
        with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
            for file in tmp_path.glob("*.bin"):
                archive.add(file, f"cifar-10-batches-bin/{file.name}")
        (images, classes), (test, _) = cifar.cifar10(tmp_path / "cifar-10-binary.tar.gz")
        assert (images.shape, test.shape, classes.tolist()) == ((3, 32, 32, 3), (1, 32, 32, 3), [7, 7, 7])
        np.testing.assert_array_equal(images[2], image)

    def test_digits_are_images_of_its_shape(self):
        (images, classes), (test, _) = cifar.digits_on_photographs(seed=1)
        assert images.shape == (1500, 32, 32, 3)
        assert len(test) == 297
        assert {*classes.tolist()} == {*range(10)}

    def test_images_are_moved_and_mirrored(self):
        images = np.zeros((200, 32, 32, 3), np.uint8)
        images[:, 16, 10] = 255
        moved, _ = cifar.augmented((images, images[:, 0, 0, 0]), np.random.default_rng(1), mirror=True)
        _, rows, columns, _ = np.nonzero(moved)
        assert {*rows} == {*range(12, 21)}
        assert {*columns} == {*range(6, 15), *range(17, 26)}


def sampled_models() -> list[Any]:
    """Those that take the longest to compile are run by `-m exhaustive`."""
    long = {"mlp", "batch_norm", "lstm", "transformer"}
    return [pytest.param(m, marks=pytest.mark.exhaustive) if m in long else m for m in makemore.MODELS]


@pytest.mark.parametrize("model", sampled_models())
def test_names_are_made(model: str, tmp_path: Path):
    (tmp_path / "names.txt").write_text(
        "\n".join(n for n in makemore.NAMES.read_text().split() if len(n) < 5)
    )
    options = ["--names", str(tmp_path / "names.txt"), "--steps", "40", "--width", "16", "--rate", "0.03"]
    trained = makemore.main([model, *options])[model]
    assert np.mean(trained.losses[-5:]) < trained.losses[0] - 0.4
    assert trained.validation < trained.losses[0]
    assert len(trained.written) == 10
    assert all(word.isalpha() and len(word) < 5 for word in trained.written if word)


def test_the_heat_equation_has_its_solution():
    points = np.random.default_rng(1).random((20, 2))
    x = oc.data(points, label="points")

    def solution(at: oc.Tensor) -> oc.Tensor:
        return oc.exp(-pinn.K * np.pi**2 * at[:, 1:]) * oc.sin(np.pi * at[:, :1])

    np.testing.assert_allclose(solution(x).numpy()[:, 0], pinn.exact(points))
    np.testing.assert_allclose(pinn.heat_equation(solution, x).numpy(), 0, atol=1e-12)


@pytest.mark.exhaustive
def test_a_network_learns_the_heat_equation():
    trained = pinn.main(["--steps", "400", "--points", "32", "--width", "16", "--rate", "0.02"])
    assert np.mean(trained.losses[-10:]) < trained.losses[0] / 10
    assert trained.error < 0.1


@pytest.mark.exhaustive
def test_an_autoencoder_learns():
    trained = vae.main(["--epochs", "4", "--hidden", "16", "--latent", "2", "--rate", "0.01"])
    assert trained.losses[-1] < trained.losses[0] - 2
    assert trained.drawn.shape == (6, 8, 8)


def test_a_model_of_pytorch_is_operated_on(capsys: pytest.CaptureFixture[str]):
    if find_spec("torch") is None:
        assert surgery.main([]) is None
        assert "PyTorch is not installed" in capsys.readouterr().out
        pytest.skip("needs PyTorch")
    operated = surgery.main(["--steps", "30"])
    assert operated is not None
    assert operated.difference < 1e-4
    assert operated.difference_back < 1e-4
    assert min(operated.parity, operated.grafted, operated.loaded) > 0.6
