"""Work that several threads share."""

import threading
import time

import pytest

from pipelines.common import parallel


@pytest.mark.parametrize("count", [1, 3])
def test_results_are_in_the_order_of_the_items(count):
    def slow_if_even(number):
        time.sleep(0.01 * (number % 2 == 0))
        return number * number

    assert list(parallel.mapped(slow_if_even, range(20), count)) == [n * n for n in range(20)]


def test_several_work_at_once_and_few_are_waited_for():
    both, taken = threading.Barrier(2), []

    def items():
        for number in range(40):
            taken.append(number)
            yield number

    found = parallel.mapped(lambda number: both.wait(20) * 0 + number, items(), 2)
    assert next(found) == 0
    assert len(taken) < 10
    assert list(found) == list(range(1, 40))


def test_an_error_ends_it():
    def fail(number):
        if number == 3:
            raise ValueError("three")
        return number

    done = []
    with pytest.raises(ValueError, match="three"):
        done.extend(parallel.mapped(fail, range(1000), 2))
    assert done == [0, 1, 2]
    found = parallel.mapped(fail, range(1000), 2)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
