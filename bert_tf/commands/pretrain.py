r"""Pre-trains BERT on TFRecords of examples.

  bert-tf pretrain --tfrecords=tfrecords/pretraining --model=tiny --steps=5000 \
      --output=savedmodels/pretrained

Several phases (the paper: 90 % of the steps at length 128, then 512) are
comma-separated lists:

  --tfrecords=tfrecords/128,tfrecords/512 --steps=900000,100000 --batch_size=256,256
"""

from absl import flags

from bert_tf.commands import training_flags
from bert_tf.pretraining import report, run
from bert_tf.pretraining.settings import Phase, PretrainingSettings, RunOptions
from pipelines.common import command_line, files
from pipelines.common.errors import InputError

_TFRECORDS = flags.DEFINE_list(
    "tfrecords", None, "Folders of examples, one a phase.", required=True
)
_STEPS = flags.DEFINE_list("steps", ["1000000"], "Steps of each phase.")
_BATCH_SIZE = flags.DEFINE_list("batch_size", ["256"], "Global batch of each phase, or of all.")
_OUTPUT = command_line.define_path("output", "savedmodels/pretrained", "Folder to write to.")
_MODEL = flags.DEFINE_string("model", "base", "tiny, mini, small, medium, base, large, or a .json.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
_WARMUP = flags.DEFINE_integer("warmup_steps", 10_000, "Steps of linear warm-up.")
_BETA_2 = flags.DEFINE_float("beta_2", 0.999, "Decay rate of squared gradients.")
_INIT = flags.DEFINE_string(
    "init_checkpoint", None, "First weights: a checkpoint folder, or any model."
)
_SEED = flags.DEFINE_integer("seed", 12345, "Fixes weights, order and dropout.")
_SAVE_EVERY = flags.DEFINE_integer("save_every", 1000, "Steps between checkpoints.")
_LOG_EVERY = flags.DEFINE_integer("log_every", 20, "Steps between points of the curves.")
_EVALUATE_EVERY = flags.DEFINE_integer("evaluate_every", 0, "Steps; 0: at the end only.")
_TENSORBOARD = flags.DEFINE_bool("tensorboard", True, "Write TensorBoard summaries.")


def _phases() -> tuple[Phase, ...]:
    folders = files.named_folders(_TFRECORDS.value)
    steps, batches = (command_line.numbers(flag, int, 1) for flag in (_STEPS, _BATCH_SIZE))
    if len(batches) == 1:
        batches *= len(folders)
    if not len(folders) == len(steps) == len(batches):
        raise InputError(
            f"--tfrecords names {len(folders)} phases, --steps {len(steps)} and --batch_size "
            f"{len(batches)}; give each as many."
        )
    return tuple(map(Phase, folders, steps, batches))


def main() -> None:
    """Runs pre-training with the flags given."""
    settings = PretrainingSettings(
        phases=_phases(),
        model=_MODEL.value,
        learning_rate=_LEARNING_RATE.value,
        warmup_steps=_WARMUP.value,
        beta_2=_BETA_2.value,
        **training_flags.values(),
        init_checkpoint=_INIT.value,
        seed=_SEED.value,
    )
    options = RunOptions(
        save_every=_SAVE_EVERY.value,
        log_every=_LOG_EVERY.value,
        evaluate_every=_EVALUATE_EVERY.value,
        tensorboard=_TENSORBOARD.value,
    )
    output = _OUTPUT.value
    result = run.pretrain(settings, output, options)
    print(report.summary(result))
    print(f"\n{output}: checkpoints, saved_model, vocab.txt, report.json, curves.png")
