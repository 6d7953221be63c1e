"""Which dtypes data have on the device."""

import numpy as np
import pytest

import ocannl as oc


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (np.bool_, np.float32),
        (np.int8, np.int32),
        (np.uint8, np.int32),
        (np.int16, np.int32),
        (np.int32, np.int32),
        (np.uint32, np.int64),
        (np.int64, np.int64),
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
    ],
)
def test_every_dtype_is_read_and_computed_with(given: type[np.generic], stored: type[np.generic]):
    x = oc.data(np.array([[1, 0, 1]], given), label="x")
    context = oc.Context.cpu()
    assert context[x].dtype == stored
    np.testing.assert_array_equal(context[x * 3], [[3, 0, 3]])


@pytest.mark.parametrize("given", [np.complex64, object])
def test_what_no_target_stores_is_refused(given: type[object]):
    with pytest.raises(TypeError, match=r"complex64|object"):
        oc.data(np.array([1, 2], given))
