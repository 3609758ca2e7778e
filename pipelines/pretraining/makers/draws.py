"""Draws of a seeded generator, compiled for the loops of makers."""

from pipelines.common.compiled import compiled


@compiled
def draw(rng, low, high):
    """An integer from low to high, both included."""
    return low + int(rng.random() * (high - low + 1))


@compiled
def target_length(budget, short_seq_prob, rng):
    """The budget, or with a probability of `short_seq_prob` an integer from 2 to it."""
    if rng.random() < short_seq_prob:
        return draw(rng, 2, budget)
    return budget
