"""Tables in Parquet and Arrow files; pyarrow reads them."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from pipelines.common import files, optional
from pipelines.common.errors import InputError

EXTRA = "tables"
_ARROW_FILE = b"ARROW1"  # at the beginning of Arrow's file format, unlike that of streams


@contextlib.contextmanager
def open_parquet(path: str, name: str) -> Iterator[Any]:
    """Opens a Parquet file, as pyarrow's `ParquetFile`; `name` and errors as for `open_rows`."""
    with _opened(path, name) as file:
        yield optional.load("pyarrow.parquet", EXTRA).ParquetFile(file)


@contextlib.contextmanager
def open_rows(
    path: str, name: str, rows: int, groups: Sequence[int] | None = None, column: str | None = None
) -> Iterator[tuple[Any, Iterable[Any]]]:
    """Opens a table, in Arrow a file or a stream: its schema, and its batches of rows.

    Args:
      path: the file.
      name: of the format, Parquet or Arrow in any case, also for errors.
      rows: of a batch of Parquet.
      groups: row groups of Parquet to read; None: all.
      column: of Parquet to read; None: all.

    Raises:
      InputError: the file is damaged or missing, two columns have the same name, or pyarrow is not
        installed.
    """
    if name.lower() == "parquet":
        with open_parquet(path, name) as table:
            columns = None if column is None else [column]
            _check_names(table.schema_arrow, path)
            yield table.schema_arrow, table.iter_batches(rows, row_groups=groups, columns=columns)
        return
    with _opened(path, name) as file:
        ipc = optional.load("pyarrow.ipc", EXTRA)
        is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
        file.seek(0)
        if is_file:
            table = ipc.open_file(file)
            _check_names(table.schema, path)
            yield table.schema, map(table.get_batch, range(table.num_record_batches))
        else:
            stream = ipc.open_stream(file)
            _check_names(stream.schema, path)
            yield stream.schema, stream


def _check_names(schema: Any, path: str) -> None:
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}: has two columns {twice!r}; rename or remove one.")


@contextlib.contextmanager
def _opened(path: str, name: str) -> Iterator[BinaryIO]:
    arrow = optional.load("pyarrow", EXTRA)
    with files.open_binary(path) as file:
        try:
            yield file
        except (arrow.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the system
            raise InputError(
                f"{path}: is not {name} data that can be read ({str(error).splitlines()[0]}); "
                "download or write it again."
            ) from error
