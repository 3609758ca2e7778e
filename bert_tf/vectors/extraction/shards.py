"""Reads shards of features without taking them into memory."""

import struct
import zipfile
from typing import BinaryIO

import numpy as np

from pipelines.common.errors import InputError

# A local header of a zip archive: 26 bytes, then the lengths of a name and of what stands between
# it and the data (APPNOTE of PKWARE, section 4.3.7).
_LENGTHS_AT = 26
_HEADER = 30


def map_shard(path: str) -> dict[str, np.ndarray]:
    """The arrays of a local shard (.npz), mapped: what is not looked at is not read.

    `np.load` reads the whole array of which a part is asked for.

    Args:
      path: of a file that `bert-tf features` has written.

    Returns:
      By name: `values` float32, `row_splits` int64, `rows` uint8 (lines of JSON), and of tokens
      and words `starts`, `ends`, `segments` and perhaps `words`, int64.

    Raises:
      InputError: it is no such file.
    """
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            return {
                info.filename.removesuffix(".npy"): _mapped(path, file, info)
                for info in archive.infolist()
            }
    except (OSError, ValueError, zipfile.BadZipFile, struct.error) as error:
        raise InputError(
            f"{path}: is no shard of features that can be mapped ({error})."
        ) from error


def _mapped(path: str, file: BinaryIO, info: zipfile.ZipInfo) -> np.ndarray:
    """An array of an archive that is open."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError("it is compressed")
    file.seek(info.header_offset + _LENGTHS_AT)
    file.seek(info.header_offset + _HEADER + sum(struct.unpack("<HH", file.read(4))))
    np.lib.format.read_magic(file)
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    if 0 in shape:  # nothing, which cannot be mapped
        return np.zeros(shape, dtype)
    if by_column:
        raise ValueError("it stands column by column")
    return np.memmap(path, dtype, mode="r", offset=file.tell(), shape=shape)
