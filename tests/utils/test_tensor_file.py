"""Arrays of any shape and memory order are read as they were written."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from properties import examples
from safetensors.numpy import save

from gpcanet.errors import DataError
from gpcanet.utils.tensor_file import read_tensor_file, write_tensor_file


@examples(30)
@given(
    shape=array_shapes(min_dims=0, max_dims=3, max_side=4),
    dtype=st.sampled_from([np.uint8, np.uint16, np.int64, np.float32]),
    order=st.sampled_from("CF"),
)
def test_arrays_keep_shape_order_and_type(tmp_path_factory, shape, dtype, order):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype, order=order)
    path = tmp_path_factory.mktemp("file") / "arrays.safetensors"
    write_tensor_file(path, {"kind": "test"}, {"array": array}, overwrite=False)
    header, arrays = read_tensor_file(path, "test")
    assert header["kind"] == "test"
    assert arrays["array"].dtype == dtype
    assert arrays["array"].shape == shape
    np.testing.assert_array_equal(arrays["array"], array)


def test_errors_of_damaged_files_are_short(tmp_path):
    """The library of the format quotes the header if the name of its entry is damaged."""
    path = tmp_path / "arrays.safetensors"
    write_tensor_file(path, {"note": "A" * 5_000}, {"array": np.zeros(2)}, overwrite=False)
    path.write_bytes(path.read_bytes().replace(b"__metadata__", b"__mettadata_"))
    with pytest.raises(DataError, match="is not a test of GPCANet, or is damaged") as raised:
        read_tensor_file(path, "test")
    assert len(str(raised.value)) < 1_000
    newer = {"format": 99, "gpcanet": "A" * 5_000, "sha256": ""}
    path.write_bytes(save({"array": np.zeros(2)}, metadata={"gpcanet": json.dumps(newer)}))
    with pytest.raises(DataError, match="in a format newer than this version can read") as raised:
        read_tensor_file(path, "test")
    assert len(str(raised.value)) < 1_000
