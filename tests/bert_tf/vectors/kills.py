"""Runs that end at any of the moments at which they change the file system."""

import itertools

import pytest

from pipelines.common import files

_CHANGES = ("rename", "rmtree", "makedirs")


class Killed(BaseException):
    """In place of the end of the process."""


def each_moment(write, folder):
    """Calls `write` with new folders, and yields each one in which it was killed.

    It is killed before and after each change, at a later one each time, until it is not.
    """
    for moment in itertools.count(1):
        left = iter(range(moment))

        def step(left=left):
            if next(left, None) is None:
                raise Killed

        def dying(function, step=step):
            def call(*arguments, **named):
                step()
                found = function(*arguments, **named)
                step()
                return found

            return call

        place = folder / str(moment)
        with pytest.MonkeyPatch.context() as patch:
            for name in _CHANGES:
                patch.setattr(files.gfile, name, dying(getattr(files.gfile, name)), raising=False)
            try:
                write(place)
            except Killed:
                pass
            else:
                return
        yield place
