"""Safe reading of untrusted HDF5 files.

Their datasets may refer to other files, by any path, and claim sizes beyond any disk.
"""

import contextlib
import math
from collections.abc import Iterator

import h5py

from pipelines.common import files
from pipelines.common.errors import InputError


@contextlib.contextmanager
def opened(path: str) -> Iterator[dict[str, h5py.Dataset]]:
    """Yields the datasets of a file by path; each is read when it is converted to an array.

    Links are left out.

    Raises:
      InputError: The file is not HDF5 or is damaged, or data is outside of it.
    """
    files.check_regular(path)
    found: dict[str, h5py.Dataset] = {}

    def note(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item

    try:
        with files.open_binary(path) as file, h5py.File(file, "r") as archive:
            archive.visititems(note)
            for name, dataset in found.items():
                if dataset.external or dataset.is_virtual:
                    raise InputError(
                        f"{path}: {name} is kept in another file, which is not read; save the "
                        "model with all weights in one file."
                    )
            yield found
    except (OSError, RuntimeError, KeyError) as error:
        raise InputError(f"{path}: is damaged ({error}); copy it again.") from error


def claimed_bytes(dataset: h5py.Dataset) -> int:
    """Memory in bytes that reading a dataset would need."""
    return math.prod(dataset.shape or ()) * dataset.dtype.itemsize
