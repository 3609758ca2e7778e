"""What the TF 1 checkpoints of google-research/bert, albert and electra contain."""

import dataclasses
from collections.abc import Mapping

from bert_tf.weights import bundle
from bert_tf.weights.table import Table

# Optimizer slots and the step.
IGNORED = r".*/adam_[mv]|.*/(lamb|Adam)(_\d)?|global_step|beta[12]_power"


@dataclasses.dataclass(frozen=True)
class Layout:
    """The checkpoints of a program.

    Attributes:
      program: name of the program.
      marker: start of the names of its encoder's weights.
      names: their names by ours, as in `Table.names`.
      head: their names of kernel and bias of the head of a task; {head} is the name of the task.
      span_head: the same for spans; None: not supported.
      transposed: starts of our names of matrices that are stored as [units, inputs].
      options: supported options of `BertConfig`, in addition to `causal`.
      fixed: values that all models of the program have.
      config: name of its configuration.
    """

    program: str
    marker: str
    names: Mapping[str, str]
    head: tuple[str, str]
    span_head: tuple[str, str] | None
    transposed: tuple[str, ...]
    options: tuple[str, ...] = ()
    fixed: Mapping[str, object] = dataclasses.field(default_factory=dict)
    config: str = "bert_config.json"

    def table(self, span: bool) -> Table:
        """The names of all weights, with those of the head of a task."""
        kernel, bias = (self.span_head if span else None) or self.head
        return Table(
            {**self.names, "heads/{head}/kernel": kernel, "heads/{head}/bias": bias},
            transposed=lambda ours: ours.startswith(self.transposed),
            ignored=IGNORED,
        )


def _block(layer: str, attention: str, norms: tuple[str, str], inner: str, outer: str) -> dict:
    return {
        "encoder/block_{i}/attention/qkv": f"{layer}/{attention}/self/{{part}}",
        "encoder/block_{i}/attention/output": f"{layer}/{attention}/output/dense",
        "encoder/block_{i}/attention_norm": f"{layer}/{norms[0]}",
        "encoder/block_{i}/feed_forward/intermediate": f"{layer}/{inner}",
        "encoder/block_{i}/feed_forward/output": f"{layer}/{outer}",
        "encoder/block_{i}/output_norm": f"{layer}/{norms[1]}",
    }


def _bert_block(prefix: str) -> dict[str, str]:
    norms = ("attention/output/LayerNorm", "output/LayerNorm")
    layer = f"{prefix}/encoder/layer_{{i}}"
    return _block(layer, "attention", norms, "intermediate/dense", "output/dense")


_EMBEDDINGS = {
    "encoder/embeddings": "bert/embeddings",
    "encoder/embeddings/norm": "bert/embeddings/LayerNorm",
}
_PAIRS = {"kernel": "output_weights", "bias": "output_bias"}
_HEADS = {
    "encoder/pooler": "bert/pooler/dense",
    "masked_lm/transform": "cls/predictions/transform/dense",
    "masked_lm/norm": "cls/predictions/transform/LayerNorm",
    "masked_lm": "cls/predictions",
}


def _pairs(head: str) -> dict[str, str]:
    """The names of the head on pairs of segments."""
    return {f"{head}/{ours}": f"cls/seq_relationship/{theirs}" for ours, theirs in _PAIRS.items()}


_HEAD = ("output_weights", "output_bias")
_SPAN_HEAD = ("cls/squad/output_weights", "cls/squad/output_bias")
_TRANSPOSED = ("next_sentence/kernel", "sentence_order/kernel", bundle.HEADS)
_GENERATOR = {
    name.replace("encoder/", "generator/"): theirs
    for name, theirs in _bert_block("generator").items()
}

LAYOUTS = {
    "bert": Layout(
        "google-research/bert",
        "bert/",
        _EMBEDDINGS | _bert_block("bert") | _HEADS | _pairs("next_sentence"),
        _HEAD,
        _SPAN_HEAD,
        _TRANSPOSED,
    ),
    "albert": Layout(
        "google-research/albert",
        "bert/encoder/transformer/",
        _EMBEDDINGS
        | {"encoder/embeddings/projection": "bert/encoder/embedding_hidden_mapping_in"}
        | _block(
            "bert/encoder/transformer/group_0/inner_group_0",
            "attention_1",
            ("LayerNorm", "LayerNorm_1"),
            "ffn_1/intermediate/dense",
            "ffn_1/intermediate/output/dense",
        )
        | _HEADS
        | _pairs("sentence_order"),
        _HEAD,
        _SPAN_HEAD,
        _TRANSPOSED,
        ("model_type", "embedding_size", "shared_layers", "head_dropout"),
        {"shared_layers": True},
        "albert_config.json",
    ),
    "electra": Layout(
        "google-research/electra",
        "electra/",
        {
            "encoder/embeddings": "electra/embeddings",
            "encoder/embeddings/norm": "electra/embeddings/LayerNorm",
            "encoder/embeddings/projection": "electra/embeddings_project",
            "replaced_token/dense": "discriminator_predictions/dense",
            "replaced_token/output": "discriminator_predictions/dense_1",
            "generator/embeddings/projection": "generator/embeddings_project",
            "generator_lm/transform": "generator_predictions/dense",
            "generator_lm/norm": "generator_predictions/LayerNorm",
            "generator_lm": "generator_predictions",
        }
        | _bert_block("electra")
        | _GENERATOR,
        ("task_specific/{head}/dense/kernel", "task_specific/{head}/dense/bias"),
        None,
        (),
        ("model_type", "embedding_size", "generator_size", "pooler_act", "pooler_dropout"),
        {"hidden_act": "gelu_erf"},
    ),
}
