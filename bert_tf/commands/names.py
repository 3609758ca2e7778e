"""Names that flags offer, without what they name: that would start TensorFlow.

The tests hold them against the registries.
"""

# `tasks.KINDS`.
TASKS = (
    *("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax"),
    *("squad1", "squad2", "ner", "pos", "swag"),
    *("classification", "pair", "regression", "tagging", "span", "choice"),
)
# `weights.formats.WRITABLE`.
FORMATS = ("bert_tf", "tf1", "huggingface")
# `export.portable.Runtime`.
RUNTIMES = ("litert", "litert_int8", "onnx")
