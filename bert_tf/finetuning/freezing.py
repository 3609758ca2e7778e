"""What of an encoder is not trained."""

import dataclasses
import re

from bert_tf.models.base_config import EncoderConfig
from bert_tf.tasks.model import TaskModel
from pipelines.common.errors import InputError

_ALL, _EMBEDDINGS = "all", "embeddings"
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Parts of an encoder that stay as they are.

    Attributes:
      embeddings: whether these do.
      blocks: the numbers of blocks that do, from 0, the lowest.
      whole: whether all of these are all that there is; the pooler is trained with the heads.
    """

    embeddings: bool = False
    blocks: frozenset[int] = frozenset()
    whole: bool = False

    @classmethod
    def parse(cls, text: str | None, config: EncoderConfig) -> "Frozen":
        """Reads --freeze, such as "embeddings,0-3" or "all".

        Raises:
          InputError: it names a part that the model does not have.
        """
        count = config.num_blocks
        embeddings, blocks = False, set[int]()
        for part in (text or "").replace(" ", "").split(","):
            match = _RANGE.fullmatch(part)
            if part == _ALL:
                embeddings, blocks = True, set(range(count))
            elif part == _EMBEDDINGS:
                embeddings = True
            elif match:
                first, last = int(match[1]), int(match[2] or match[1])
                blocks |= set(range(first, last + 1))
                if last < first or last >= count:
                    raise InputError(f"--freeze={text}: {part} is not among {_layers(count)}.")
            elif text is not None:
                raise InputError(
                    f"--freeze={text}: {part!r} is neither `embeddings`, `all`, nor a layer or a "
                    f"range of {_layers(count)}."
                )
        return cls(embeddings, frozenset(blocks), embeddings and len(blocks) == count)

    def apply(self, model: TaskModel) -> None:
        """Freezes these parts of a model."""
        if self.embeddings:
            model.encoder.embeddings.trainable = False
        for index in self.blocks:
            model.encoder.blocks[index].trainable = False


def _layers(count: int) -> str:
    return f"the layers 0 to {count - 1}" if count > 1 else "the layers, which are one: 0"
