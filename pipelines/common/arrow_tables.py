"""Tables in Parquet and Arrow files; pyarrow reads them."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from pipelines.common import compressed, files, optional
from pipelines.common.errors import InputError

EXTRA = "tables"
_ROWS = 64  # of Parquet that are in memory at a time
_MAX_BATCH = 1 << 30  # bytes of these rows
_VALUE = 8  # bytes of a value in a list of Python, at least
_ARROW_FILE = b"ARROW1"  # at the beginning of Arrow's file format, unlike that of streams


@contextlib.contextmanager
def open_parquet(path: str, name: str) -> Iterator[Any]:
    """Opens a Parquet file, as pyarrow's `ParquetFile`; `name` and errors as for `open_rows`."""
    with _opened(path, name) as file:
        yield optional.load("pyarrow.parquet", EXTRA).ParquetFile(file)


@contextlib.contextmanager
def open_rows(path: str, name: str) -> Iterator[tuple[Any, Iterable[Any]]]:
    """Opens a table, in Arrow a file or a stream: its schema, and its batches of rows.

    Args:
      path: the file.
      name: of the format, Parquet or Arrow in any case, also for errors.

    Raises:
      InputError: the file is damaged or missing, its content exceeds an `UnpackedSize`, two columns
        have the same name, or pyarrow is not installed.
    """
    size = compressed.UnpackedSize(path)
    with _open_table(path, name) as (schema, read):
        yield schema, (_checked(batch, size) for batch in read(None, None))


@contextlib.contextmanager
def open_texts(
    path: str, name: str, columns: Sequence[str], groups: Sequence[int] | None
) -> Iterator[Iterable[Any]]:
    """Opens a column of texts: arrays of bytes, which may not be UTF-8.

    Args:
      path: the file.
      name: as for `open_rows`.
      columns: possible names of the column, of which the first one counts that the table has.
      groups: row groups of Parquet to read; None: all.

    Raises:
      InputError: as for `open_rows`, or there is no such column of texts.
    """
    arrow = optional.load("pyarrow", EXTRA)
    size = compressed.UnpackedSize(path)
    with _open_table(path, name) as (schema, read):
        column = next((column for column in columns if column in schema.names), None)
        if column is None:
            raise InputError(
                f"{path}: no column {columns[0]!r}; name one of {', '.join(schema.names)} with "
                "--text_field."
            )
        kind, types = schema.field(column).type, arrow.types
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
            raise InputError(f"{path}: column {column!r} has no texts, but values of type {kind}.")
        raw = (_raw(batch[column]) for batch in read(column, groups))
        yield (_checked(arrow.record_batch([each], [column]), size).column(0) for each in raw)


@contextlib.contextmanager
def _open_table(path: str, name: str) -> Iterator[tuple[Any, Callable[..., Iterable[Any]]]]:
    """Opens a table: its schema, and a function of a column and row groups to its batches."""
    if name.lower() == "parquet":
        with open_parquet(path, name) as table:
            _check_names(table.schema_arrow, path)
            rows = _rows_of_batch(table.metadata)
            yield (
                table.schema_arrow,
                lambda column, groups: table.iter_batches(rows, groups, column and [column]),
            )
        return
    with _opened(path, name) as file:
        ipc = optional.load("pyarrow.ipc", EXTRA)
        is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
        file.seek(0)
        table = ipc.open_file(file) if is_file else ipc.open_stream(file)
        _check_names(table.schema, path)
        batches = map(table.get_batch, range(table.num_record_batches)) if is_file else table
        yield table.schema, lambda *_: batches


def _checked(batch: Any, size: compressed.UnpackedSize) -> Any:
    """A batch with valid offsets: others crash the process as soon as they are followed."""
    batch.validate(full=True)
    size.add(sum(map(_size, batch.columns)))
    return batch


def _rows_of_batch(metadata: Any) -> int:
    """Number of rows to read at a time: each may refer to one text as large as its group."""
    # The sizes of columns would be closer, but pyarrow aborts where some of them are damaged.
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    largest = max((group.total_byte_size for group in groups), default=1)
    return min(max(_MAX_BATCH // max(largest, 1), 1), _ROWS)


def _raw(texts: Any) -> Any:
    """Texts as bytes, without a copy."""
    arrow = optional.load("pyarrow", EXTRA)
    if arrow.types.is_dictionary(texts.type):
        return arrow.DictionaryArray.from_arrays(texts.indices, _raw(texts.dictionary), safe=False)
    kinds = {
        arrow.string(): arrow.binary(), arrow.large_string(): arrow.large_binary(),
        arrow.string_view(): arrow.binary_view(),
    }  # fmt: skip
    return texts.view(kinds[texts.type])


def _size(array: Any) -> int:
    """Bytes of the values of an array; those that several share count for each."""
    arrow = optional.load("pyarrow", EXTRA)
    kind, types = array.type, arrow.types
    if isinstance(array, arrow.ExtensionArray):
        return _size(array.storage)
    if types.is_union(kind) or types.is_run_end_encoded(kind):
        raise arrow.ArrowNotImplementedError(f"values of type {kind}")
    size = array.nbytes + _VALUE * len(array)
    if types.is_dictionary(kind):
        used = array.indices.drop_null().to_numpy()
        return size + int(_lengths(array.dictionary)[used].sum())
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return size + int(_lengths(array).sum())
    if types.is_map(kind):
        return size + _size(array.keys) + _size(array.items)
    if types.is_nested(kind):
        parts = array.flatten()
        return size + sum(map(_size, parts if types.is_struct(kind) else [parts]))
    return size


def _lengths(values: Any) -> np.ndarray:
    """Bytes of each value of an array, int64: of nested ones at most, of numbers 0."""
    compute, types = optional.load("pyarrow.compute", EXTRA), optional.load("pyarrow", EXTRA).types
    kind = values.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        # Each view begins with its length; that of a missing value may be anything.
        views = np.frombuffer(values.buffers()[1], np.int32).reshape(-1, 4)
        there = values.is_valid().to_numpy(zero_copy_only=False)
        return views[values.offset : values.offset + len(values), 0].astype(np.int64) * there
    if types.is_nested(kind):
        return np.full(len(values), _size(values))
    if kind.num_buffers < 3:  # the third has the bytes of texts
        return np.zeros(len(values), np.int64)
    return compute.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)


def _check_names(schema: Any, path: str) -> None:
    (name, count), *_ = Counter(schema.names).most_common(1) or [("", 0)]
    if count > 1:
        raise InputError(f"{path}: has two columns {name!r}; rename or remove one.")


@contextlib.contextmanager
def _opened(path: str, name: str) -> Iterator[BinaryIO]:
    arrow = optional.load("pyarrow", EXTRA)
    damage = (arrow.ArrowException, OSError, MemoryError, OverflowError, UnicodeDecodeError)
    with files.open_binary(path) as file:
        try:
            yield file
        except damage as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the system
            reason = next(iter(str(error).splitlines()), "its batches are larger than the memory")
            raise InputError(
                f"{path}: is not {name} data that can be read ({reason}); download or write it "
                "again."
            ) from error
