"""What processes are forked with: all that commands import, and no session of TensorFlow."""

# ruff: noqa: F401

import bert_tf.experiments.run
import bert_tf.export.hub
import bert_tf.finetuning.sweep
import bert_tf.pretraining.run
import bert_tf.serving.predictor
import bert_tf.vectors.embedding.run
import pipelines.pretraining.example_writer
import pipelines.tokenizers.learning
