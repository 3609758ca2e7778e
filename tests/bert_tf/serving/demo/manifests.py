"""Manifests of exports as the page needs them, without an export."""

from bert_tf import tasks

# Inputs and outputs of each signature, by the shape of the answer.
TENSORS = {
    "classification": (["text"], ["label", "probabilities", "logits"]),
    "embedding": (["text"], ["embedding"]),
    "multilabel": (["text"], ["labels", "probabilities", "logits"]),
    "regression": (["text_a", "text_b"], ["score"]),
    "span": (
        ["question", "context"],
        [
            *("answer", "start_character", "end_character", "score", "no_answer_probability"),
            *("n_best_answer", "n_best_start", "n_best_end", "n_best_score"),
        ],
    ),
    "tagging": (
        ["text"],
        ["tokens", "tags", "probabilities", "start_characters", "end_characters"],
    ),
    "generate": (["text"], ["text"]),
    "generation": (["text"], ["text"]),
    "tagging_words": (["words"], ["tags", "probabilities"]),
    "choice": (["context", "choices"], ["choice", "probabilities", "logits"]),
    "fill_mask": (["text"], ["tokens", "probabilities"]),
    "embed": (["text"], ["mean_output", "pooled_output"]),
    "embed_layers": (["text"], ["layers"]),
}
IDS = (["input_word_ids", "input_mask", "input_type_ids"], ["logits"])


def make(*trained, pretrained=False, mask_token="[MASK]"):
    """A manifest.

    Args:
      *trained: tasks.
      pretrained: whether there is a pre-trained model, too.
      mask_token: its mask.
    """
    shapes = {}
    for task in trained:
        shapes[task.name] = task.shape
        if task.shape == "tagging":
            shapes[f"{task.name}_words"] = "tagging_words"
    if pretrained:
        shapes |= {name: name for name in ("fill_mask", "embed", "embed_layers")}
    signatures = {}
    for name, shape in shapes.items():
        signatures[name] = _tensors(*TENSORS[shape])
        signatures[f"{name}_ids"] = _tensors(*IDS)
    models = [{"tasks": [task.describe()]} for task in trained]
    own = {"tasks": [], "mask_token": mask_token, "sample": ["Returns the ", " of the ", "."]}
    return {
        "parameters": 109_482_240,
        "encoders": 1,
        "precision": "float32",
        "date": "2026-01-02",
        "models": [*models, *([own] if pretrained else [])],
        "signatures": signatures,
    }


def classification(*labels, name="mood", kind="classification"):
    """A trained task with some labels."""
    return tasks.make(kind, name).restore({"max_seq_length": 32, "labels": labels, "pair": False})


def _tensors(inputs, outputs):
    return {
        "inputs": {key: ["string", [None]] for key in inputs},
        "outputs": dict.fromkeys(outputs),
    }
