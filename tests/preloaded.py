"""What `tests.commands` imports once for all commands: no module that defines flags.

None of them begins with TensorFlow's runtime, which a forked process could not use.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import bert_tf.finetuning.sweep
import bert_tf.pretraining.run
import bert_tf.serving.predictor  # noqa: F401
import pipelines.corpus.builtin
import pipelines.tokenizers.learning  # noqa: F401
