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
        return WarmupHoldDecay(settings.learning_rate, settings.warmup_steps)
    if settings.phase_learning_rates and settings.phase_warmup_steps:
        steps = [phase.steps for phase in settings.phases]
        return PhaseCycles(settings.phase_learning_rates, settings.phase_warmup_steps, steps)
    rate, warmup, total = settings.learning_rate, _warmup_steps(settings), settings.total_steps
    if settings.decay_fraction is not None:
        return WarmupHoldDecay(rate, warmup, total, round(settings.decay_fraction * total))
    return WarmupLinearDecay(rate, warmup, total)


def _warmup_steps(settings: PretrainingSettings) -> int:
    """The warm-up asked for, or a tenth of a run that is no longer than that."""
    if settings.warmup_steps < settings.total_steps:
        return settings.warmup_steps
    shorter = settings.total_steps // 10
    logging.warning(
        "a warm-up of %d steps is as long as the run; it is shortened to %d.",
        settings.warmup_steps,
        shorter,
    )
    return shorter
