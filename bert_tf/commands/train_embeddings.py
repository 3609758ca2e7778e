r"""Trains embeddings of texts: near where texts are alike.

  bert-tf train-embeddings --init=all-MiniLM-L6-v2 --train=questions.tsv --dev=sts-dev.tsv
  bert-tf train-embeddings --init=savedmodels/pretrained --data=reviews.csv --dimensions=128,64

The columns of the data decide the loss: pairs (text_a, text_b), pairs with a similarity (label),
pairs with a text that is not alike (negative), texts with a class (label), or texts alone. It is
`bert-tf finetune --task=embedding`, with the same flags. A run that was stopped is resumed.
"""

from absl import flags

from bert_tf.commands import finetune

flags.FLAGS["task"].validators.clear()  # it need not be given
flags.FLAGS.set_default("task", ["embedding"])


def main() -> None:
    """Trains as the flags say."""
    finetune.main()
