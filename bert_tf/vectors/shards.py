"""Maps shards of features into memory."""

import struct
import zipfile
from typing import BinaryIO

import numpy as np

from pipelines.common.errors import InputError

# A local header of a zip archive: 26 bytes, then the lengths of the two fields between header and
# data (APPNOTE of PKWARE, section 4.3.7).
_LENGTHS_AT = 26
_HEADER = 30


def map_shard(path: str) -> dict[str, np.ndarray]:
    """Maps the arrays of a local shard (.npz): only the parts that are used are read.

    `np.load` reads whole arrays.

    Args:
      path: a file that `bert-tf features` has written.

    Returns:
      By name: `values` float32, `row_splits` int64, `rows` uint8 (lines of JSON); for tokens and
      words also `starts`, `ends` and `segments`, for tokens of given words `words`, int64.

    Raises:
      InputError: the file is not a shard, or cannot be mapped.
    """
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            return {
                info.filename.removesuffix(".npy"): _mapped(path, file, info)
                for info in archive.infolist()
            }
    except Exception as error:  # NumPy gives headers to the parser of Python, which raises any
        raise InputError(
            f"{path}: is not a shard of features that can be mapped ({error})."
        ) from error


def _mapped(path: str, file: BinaryIO, info: zipfile.ZipInfo) -> np.ndarray:
    """An array of an open archive."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError("it is compressed")
    file.seek(info.header_offset + _LENGTHS_AT)
    file.seek(info.header_offset + _HEADER + sum(struct.unpack("<HH", file.read(4))))
    np.lib.format.read_magic(file)
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    if 0 in shape:  # cannot be mapped
        return np.zeros(shape, dtype)
    if by_column:
        raise ValueError("it is stored by column")
    return np.memmap(path, dtype, mode="r", offset=file.tell(), shape=shape)
