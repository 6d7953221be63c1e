"""A program whose ranks are processes with GPUs of their own, all of them stand-ins.

mpirun -n 2 python -m support.gpu_ranks FOLDER MODE
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.cuda_on_cpu import FakeDriver, install
from support.fake_nccl import FolderBoard, install_nccl
from support.mesh_programs import perceptron

import ocannl as oc
from ocannl.runtime.cuda.mesh import CudaMesh


def main(folder: Path, mode: str) -> None:
    driver, patch = FakeDriver(), pytest.MonkeyPatch()
    driver.count = 2
    install(patch, driver)
    install_nccl(patch, driver, FolderBoard(folder))
    ctx = oc.Context.cuda(mesh=oc.Mesh({"data": 2}, timeout=60.0 if mode == "whole" else 5.0))
    if mode == "whole":
        found, expected = perceptron(ctx, {"batch": "data"}), perceptron(oc.Context.cpu(1), None)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-12, err_msg=name)
        print("found the same on", ctx)
        return
    total = oc.sum(oc.data(np.arange(8.0), label="x", shard={0: "data"}))
    step = ctx.compile(oc.forward(total), name="step")
    assert isinstance(ctx.device, CudaMesh)
    if 1 in ctx.device.engine.ranks:
        time.sleep(60)
    step()
    print("found", float(ctx[total]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
