"""The studies by name. To add one, write a class and add it here."""

from collections.abc import Sequence

from bert_tf.experiments.jobs import Job, with_needs
from bert_tf.experiments.plan import ExperimentPlan
from bert_tf.experiments.studies.base import Study
from bert_tf.experiments.studies.finetuning import CurveStudy, FeatureStudy, IntermediateStudy
from bert_tf.experiments.studies.models import MaskingStudy, PretrainingStudy
from bert_tf.experiments.studies.scale import SizeStudy, StepStudy

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        PretrainingStudy(),
        SizeStudy(),
        StepStudy(),
        MaskingStudy(),
        FeatureStudy(),
        IntermediateStudy(),
        CurveStudy(),
    )
}
# In the order in which they are left out where time is short, the last one first.
BY_IMPORTANCE = (
    "pretraining",
    "curves",
    "steps",
    "size",
    "intermediate",
    "features",  # which alone needs an ELMo
    "masking",
)


def jobs_of(plan: ExperimentPlan, studies: Sequence[str]) -> list[Job]:
    """All jobs of studies, each once, in an order in which they can be done."""
    return with_needs(job for name in studies for job in STUDIES[name].jobs(plan))
