"""Under which heading of --help a flag stands: said where it is defined."""

import contextlib
import enum
from collections.abc import Iterator

from absl import flags


class Group(enum.StrEnum):
    """The headings, in their order."""

    DATA = "Input and output"
    LAYOUT = "How the files are laid out"
    TEXT = "How text is read"
    VOCABULARY = "The vocabulary"
    EXAMPLES = "The examples"
    MASKING = "What is masked"
    MODEL = "The model"
    SEQUENCES = "Sequences"
    TRAINING = "Training"
    OPTIMIZER = "Optimizer and regularization"
    EVALUATION = "Evaluation, and what is kept"
    MACHINE = "The machine"
    SAVING = "Saving and logging"
    SERVER = "The server"
    OTHER = "Flags"  # those that say nothing


_GROUPS: dict[flags.Flag, Group] = {}


@contextlib.contextmanager
def group(heading: Group) -> Iterator[None]:
    """Flags that are defined within stand under a heading."""
    before = set(flags.FLAGS)
    yield
    _GROUPS.update({flags.FLAGS[name]: heading for name in flags.FLAGS if name not in before})


def group_of(flag: flags.Flag) -> Group:
    """The heading of a flag."""
    return _GROUPS.get(flag, Group.OTHER)
