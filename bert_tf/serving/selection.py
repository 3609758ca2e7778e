"""Selects the engine for an export by a rule, the same on every machine.

Measuring the engines at the first start was tried. The best two were within noise of each other on
four kinds of machine, so that other programs decided which one was chosen; and it took tens of
seconds.
"""

from typing import Any

from bert_tf import tasks
from bert_tf.export import saved_model
from bert_tf.models import configs
from bert_tf.serving import engines
from bert_tf.serving.plan import AUTO, EngineName, ExecutionPlan, Precision
from pipelines.common.errors import InputError
from pipelines.common.machine import cores

# The engines of each precision; the first installed one counts. TensorFlow packs the weights again
# for each product, which doubles the time of short requests. In int8, on an EPYC with
# VNNI, LiteRT needed 0.79 to 0.92 of ONNX Runtime's time for single requests, and its vectors are
# nearer to those of float32 (cosines from 0.994, from 0.979 by ONNX Runtime).
PREFERRED = {
    Precision.INT8: (EngineName.LITERT, EngineName.ONNXRUNTIME, EngineName.OPENVINO),
    Precision.BFLOAT16: (EngineName.OPENVINO, EngineName.TENSORFLOW),
    Precision.FLOAT32: (EngineName.ONNXRUNTIME, EngineName.TENSORFLOW),
}
# With more cores, several computations run at once, because the threads of one wait for each other
# after each of its products.
_MAX_THREADS = 4


def choose(
    path: str, engine: str = AUTO, threads: int | None = None, precision: Precision | None = None
) -> ExecutionPlan:
    """The plan for an export.

    Args:
      path: of the export.
      engine: its name, or `AUTO`.
      threads: of one computation; None: all cores, at most four.
      precision: in which to multiply; None: the lowest in which the export was checked.

    Raises:
      InputError: the engine is unknown or cannot compute the export, or the export was not checked
        in this precision.
    """
    if engine not in (AUTO, *EngineName):
        known = ", ".join((AUTO, *EngineName))
        raise InputError(f"engine {engine!r}: is unknown; use one of {known}.")
    models: Any = saved_model.read_manifest(path)["models"]
    if not all(configs.of_dict(model["config"], path).portable for model in models):
        if engine not in (AUTO, EngineName.TENSORFLOW):
            raise InputError(f"{path}: only TensorFlow can compute it; leave --engine out.")
        engine = EngineName.TENSORFLOW
    elif engine == AUTO and all(
        model["tasks"] and all(tasks.load(task).generation for task in model["tasks"])
        for model in models
    ):
        engine = EngineName.TENSORFLOW  # it writes all texts, whatever the engine
    threads = threads or min(cores(), _MAX_THREADS)
    if engine != AUTO:
        name = EngineName(engine)
        return ExecutionPlan(name, threads, precision_of(path, name, precision))
    checked, installed = saved_model.kept_precisions(path), engines.installed()
    for kind, names in PREFERRED.items():
        if precision in (None, kind):
            for name in names:
                if name in installed and kind in (Precision.FLOAT32, checked.get(name)):
                    return ExecutionPlan(name, threads, kind)
    raise _unchecked(path, "the installed engines", precision)


def precision_of(path: str, engine: EngineName, wanted: Precision | None = None) -> Precision:
    """The precision in which an engine computes an export.

    Args:
      path: of the export.
      engine: its name.
      wanted: the precision asked for; None: that in which the export was checked.

    Raises:
      InputError: the engine has no such precision, or the export was not checked in it.
    """
    checked = Precision(saved_model.kept_precisions(path).get(engine, Precision.FLOAT32))
    if wanted in (None, checked, Precision.FLOAT32):
        return wanted or checked
    if engine in PREFERRED[wanted]:
        raise _unchecked(path, engine, wanted)
    able = " or ".join(PREFERRED[wanted])
    raise InputError(f"{path}: {engine} does not compute in {wanted}; use the engine {able}.")


def _unchecked(path: str, engine: str, wanted: Precision | None) -> InputError:
    return InputError(
        f"{path}: was not checked in {wanted} with {engine}; export it with --precision={wanted}, "
        "which measures whether its scores are kept."
    )
