"""The learning rate of a pre-training run: one cycle, or one for each phase."""

from absl import logging

from bert_tf.pretraining.settings import PretrainingSettings
from bert_tf.training.schedules import (
    PhaseCycles,
    Schedule,
    WarmupHoldDecay,
    WarmupLinearDecay,
)


def of_run(settings: PretrainingSettings) -> Schedule:
    """The schedule that settings ask for; one of minutes has no end yet."""
    if settings.minutes is not None:
        return WarmupHoldDecay(settings.learning_rates[0], settings.warmup_steps[0])
    if len(settings.learning_rates) > 1:
        steps = [phase.steps for phase in settings.phases]
        return PhaseCycles(settings.learning_rates, settings.warmup_steps, steps)
    rate, warmup, total = settings.learning_rates[0], _warmup_steps(settings), settings.total_steps
    if settings.decay_fraction is not None:
        return WarmupHoldDecay(rate, warmup, total, round(settings.decay_fraction * total))
    return WarmupLinearDecay(rate, warmup, total)


def _warmup_steps(settings: PretrainingSettings) -> int:
    """The warm-up asked for, or a tenth of a run that is no longer than that."""
    (asked,) = settings.warmup_steps
    if asked < settings.total_steps:
        return asked
    shorter = settings.total_steps // 10
    logging.warning(
        "a warm-up of %d steps is as long as the run; it is shortened to %d.", asked, shorter
    )
    return shorter
