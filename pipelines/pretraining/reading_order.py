"""The order in which training reads the records of files: a function of the seed alone.

The order of an epoch: files are shuffled (by seed and epoch), then read in groups, one record of
each in turn; every file begins at a random record and wraps round. The files were shuffled when
they were written, so no buffer is needed.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.common.errors import InputError

GROUP = 16  # files that are read together
_MOST_FILES_READ = 1 << 20  # in the order of a run, where it is a table


Group = tuple[np.ndarray, np.ndarray, int]


def groups(records: Sequence[int], seed: int, position: int) -> Iterator[Group]:
    """Yields what to read together, from a record of the endless order on.

    Groups before that record are left out unread.

    Args:
      records: of each file.
      seed: of the order.
      position: the record to begin with.

    Yields:
      The files of a group by number, the record at which each begins, and how many
      records of the group to skip.
    """
    total = sum(records)
    epoch, position = divmod(position, total)
    while True:
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch])))
        order = rng.permutation(len(records))
        starts = rng.integers(0, np.array(records)[order])
        for first in range(0, len(order), GROUP):
            members = order[first : first + GROUP]
            size = sum(records[member] for member in members)
            if position < size:
                yield members, starts[first : first + GROUP], position
            position = max(0, position - size)
        epoch += 1


def table(
    records: Sequence[int], seed: int, position: int, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The groups that hold `count` records from `position` on, for a graph that runs elsewhere.

    Other arguments are those of `groups`.

    Returns:
      int64 [groups, GROUP] files, -1 where a group has fewer; [groups, GROUP]
      first records; [groups] records to skip.

    Raises:
      InputError: the examples are so few that the table would be large.
    """
    total = sum(records)
    if (1 + count // total) * len(records) > _MOST_FILES_READ:
        raise InputError(
            f"{count:,} examples are to be read of {total:,}, over and over: too often for "
            "--data_service. Read them without it; so few come fast enough."
        )
    found: list[Group] = []
    for members, starts, skip in groups(records, seed, position):
        found.append((members, starts, skip))
        count -= sum(records[member] for member in members) - skip
        if count <= 0:
            break

    def filled(values: list[np.ndarray]) -> np.ndarray:
        rows = [np.pad(row, (0, GROUP - len(row)), constant_values=-1) for row in values]
        return np.stack(rows).astype(np.int64)

    members_of, starts_of, skips = zip(*found, strict=True)
    return filled(list(members_of)), filled(list(starts_of)), np.array(skips, np.int64)
