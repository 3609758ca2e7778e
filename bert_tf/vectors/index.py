"""An index of a file of vectors: finds neighbours without comparing a query with every row.

Rows are put into cells by the nearest of several centres (k-means), and a search reads the cells
that are nearest to the query: an inverted file (Sivic and Zisserman 2003), that of faiss.
"""

import hashlib
import logging
import math
from typing import Any

import numpy as np

from bert_tf.vectors.vector_file import VectorFile, compared
from pipelines.common import files, json_files, optional
from pipelines.common.errors import InputError

_CELLS = 4  # times the root of the number of rows
_SAMPLE = 64  # rows for each cell, of which its centre is learned
_ITERATIONS = 10  # of k-means
_HEAD = 1 << 16  # bytes of a file of faiss: its sizes and the first centres
_READ = 1 / 16  # of the cells, for a query


class VectorIndex:
    """The index of a file of vectors, `<file>.faiss`, which is made if it is missing or of others.

    Cells are read from disk when a search needs them.

    Args:
      vectors: the file, on a local disk.

    Raises:
      InputError: faiss is not installed, the file is not on a local disk, or the index is damaged
        or cannot be written.
    """

    def __init__(self, vectors: VectorFile):
        logging.getLogger("faiss").setLevel(logging.WARNING)  # it tells what it was compiled for
        self._faiss: Any = optional.load("faiss", "index")
        if "://" in vectors.path:
            raise InputError(
                f"{vectors.path}: an index is read from a local disk; copy the file and those of "
                "its name, or leave out --index."
            )
        self._similarity = vectors.settings.similarity
        path = f"{vectors.path.rstrip('/')}.faiss"
        description = f"{path}.json"
        sha256 = files.sha256(vectors.manifest)
        known = files.gfile.exists(path) and json_files.read_whole(description, dict[str, str])
        try:
            if not known or known != self._identity(path, sha256):
                logging.info("%s: made once, of %d vectors.", path, vectors.rows)
                with files.write_aside(path, shared=True) as partial:
                    self._faiss.write_index(self._made(vectors), partial)
                json_files.write(description, self._identity(path, sha256), shared=True)
            self._index = self._faiss.read_index(path, self._faiss.IO_FLAG_MMAP)
        except RuntimeError as error:  # of faiss
            raise InputError(
                f"{path}: cannot be written or read ({error}); free space on the disk, or remove "
                "the file, which is then made again."
            ) from error
        self._index.nprobe = math.ceil(self._index.nlist * _READ)

    @staticmethod
    def _identity(path: str, vectors_sha256: str) -> dict[str, str]:
        """What an index is known by: the checksum of its vectors, and that of its centres."""
        with files.gfile.GFile(path, "rb") as file:
            head = hashlib.sha256(file.read(_HEAD)).hexdigest()
        return {"vectors_sha256": vectors_sha256, "head_sha256": head}

    def _made(self, vectors: VectorFile) -> Any:
        """The index, in memory."""
        cells = min(math.ceil(_CELLS * math.sqrt(vectors.rows)), vectors.rows // _SAMPLE)
        cells = max(1, cells)
        inner = self._faiss.METRIC_INNER_PRODUCT
        index = self._faiss.index_factory(vectors.width, f"IVF{cells},Flat", inner)
        index.cp.niter, index.cp.min_points_per_centroid = _ITERATIONS, 1
        step = max(1, vectors.rows // (_SAMPLE * cells))
        begin, sample = 0, []
        for block in vectors.blocks():
            sample.append(compared(block[-begin % step :: step], self._similarity))
            begin += len(block)
        index.train(np.concatenate(sample))
        for block in vectors.blocks():
            index.add(compared(block, self._similarity))
        return index

    def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the most similar rows of each query in the nearest cells.

        Args:
          queries: float32 [queries, width].
          count: maximum number of rows for a query.

        Returns:
          int64 [queries, count] numbers of rows from 0, the most similar first, and their
          similarities, float32 [queries, count]. If the file has fewer rows, the last numbers are
          -1.
        """
        queries = compared(queries, self._similarity)
        similarities, rows = self._index.search(queries, count)
        few = (rows < 0).any(axis=1)  # in the nearest cells, which may even be empty
        if few.any():
            every = self._faiss.SearchParametersIVF(nprobe=self._index.nlist)
            similarities[few], rows[few] = self._index.search(queries[few], count, params=every)
        return rows, similarities
