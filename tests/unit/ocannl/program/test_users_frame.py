"""Which frame is the user's: that of a file in no folder of the package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.messages import data, message_of
from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Attribute

import ocannl
import ocannl as oc
from ocannl import dialects, lowering, passes, runtime
from ocannl.dialects.ir.origins import place
from ocannl.program.location import warn_at

HERE = Path(__file__).name


def clash_in(filename: str) -> Callable[[oc.Tensor, oc.Tensor], oc.Tensor]:
    """A sum in line 2 of a file of this name."""
    names: dict[str, Any] = {}
    exec(compile("def clash(x, y):\n    return x + y\n", filename, "exec"), names)
    return names["clash"]


@pytest.mark.parametrize("package", [ocannl, dialects, lowering, passes, runtime])
class TestTheUsersFrame:
    def test_a_script_beside_a_folder_of_the_package_is_the_users(self, package: ModuleType):
        clash = clash_in(f"{package.__path__[0]}_try.py")
        message_of(oc.ShapeError, lambda: clash(data(3), data(5)), "_try.py:2")

    def test_a_file_in_a_folder_of_the_package_is_not(self, package: ModuleType):
        clash = clash_in(str(Path(package.__path__[0], "part", "module.py")))
        message_of(oc.ShapeError, lambda: clash(data(3), data(5)), HERE)


@pytest.mark.parametrize(
    ("where", "told"), [(place("model.py", 7), ("model.py", 7)), (UnknownLoc(), ("<unknown>", 0))]
)
def test_a_warning_at_a_line(where: Attribute, told: tuple[str, int]):
    with pytest.warns(UserWarning, match="slow") as found:
        warn_at(where, "slow")
    assert (found[0].filename, found[0].lineno) == told


def test_a_protocol_of_the_standard_library_is_not_the_users():
    @oc.block
    def layer(p: oc.BlockParams, x: oc.Tensor) -> oc.Tensor:
        return p.w @ x

    message_of(oc.ArgumentError, lambda: layer().params, HERE)
