"""The tests leave the user's compile cache alone, and find no settings of the user. By default,
programs run on the CPU, also where there is a GPU.
"""

from collections.abc import Iterator

import pytest

SETTINGS = ("OCANNL_BACKEND", "OCANNL_THREADS", "OCANNL_DUMP", "OCANNL_VERIFY", "OCANNL_TIMING")


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCANNL_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name in SETTINGS:
            patch.delenv(name, raising=False)
        patch.setenv("OCANNL_BACKEND", "cpu")
        yield
