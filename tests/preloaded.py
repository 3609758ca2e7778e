"""What `tests.commands` imports once for all commands: no module that defines flags."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pipelines.corpus.builtin
import pipelines.tokenizers.learning  # noqa: F401
