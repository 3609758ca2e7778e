"""The studies of the paper as a table: the scale of each budget, what is compared, what is claimed.

Flags are those of learn-vocabulary, write-examples, pretrain and finetune. Those of a row are added
to those of all runs, and win over them; {size} and the like are fields of the preset.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

LENGTH, BATCH = 64, 32  # tokens of a pre-training sequence, sequences of a step
SEEDS = "1,2,3"  # of fine-tuning
VOCABULARY = "--vocab_size={vocab_size}"
ELMO = {"vocab_size": 60_000, "softmax_size": 8192}  # other words are unknown, or not predicted
WORDS = f"--kind=word --vocab_size={ELMO['vocab_size']}"
EXAMPLES = (
    f"--max_seq_length={LENGTH} --max_predictions_per_seq=10 --dupe_factor=5 "
    "--held_out_fraction=0.03"
)
# The recipe of short runs (docs/guides/recipes.md).
PRETRAINING = (
    f"--steps={{steps}} --warmup_steps={{warmup_steps}} --batch_size={BATCH} --optimizer=muon "
    "--learning_rate=2e-3 --decay_fraction=0.3 --beta_2=0.98 --dropout=0 --initializer_range=0.05 "
    "--save_every=500 --keep_at=0.1,0.2,0.5 --no_saved_model --precision={precision}"
)
# Dropout is the paper's, although pre-training has none. What is scored on dev must not be selected
# by it, so there is one evaluation, at the end. Positions beyond LENGTH are untrained.
FINETUNING = (
    f"--train_examples={{examples}} --epochs={{epochs}} --batch_size={BATCH} --dropout=0.1 "
    f"--learning_rate=1e-3 --max_seq_length={LENGTH} --seeds={SEEDS} --evaluations=0 "
    "--precision={precision}"
)


class Preset(NamedTuple):
    """The scale of everything, for a --budget; the times are those of two cores."""

    size: str  # of the main model, as for --model
    width: int  # of that size
    vocab_size: int
    steps: int  # of pre-training, the same for all models
    examples: int  # for training, of each task at most
    epochs: int
    pretraining_seeds: tuple[int, ...]  # of the first study; other models have the first of them
    studies: tuple[str, ...]


_FIRST = ("pretraining", "curves", "steps")
_ALL = (*_FIRST, "size", "features", "masking")
PRESETS = {
    "trial": Preset("debug", 64, 300, 20, 64, 1, (1,), _FIRST[:1]),
    "10m": Preset("debug", 64, 8192, 1_200, 500, 8, (1,), _FIRST[:1]),
    "2h": Preset("tiny", 128, 8192, 8_000, 3_000, 8, (1,), _FIRST),
    "8h": Preset("tiny", 128, 8192, 8_000, 3_000, 8, (1, 2, 3), _ALL),
    "24h": Preset("tiny", 128, 8192, 36_000, 3_000, 8, (1, 2, 3), _ALL),
}
PERPLEXITY = "held-out perplexity"  # the column of studies with `perplexity`


class StudyTask(NamedTuple):
    """A task to fine-tune for."""

    name: str  # unique
    kind: str
    data: str  # file or folder
    columns: str  # as for --columns of finetune
    per_token: bool  # whether it labels tokens rather than whole texts


class Model(NamedTuple):
    """A model to pre-train."""

    name: str  # of its folders
    examples: str  # flags of write-examples
    pretraining: str  # flags of pretrain
    words: bool = False  # whether its vocabulary is of words rather than of word pieces


class Row(NamedTuple):
    """A row of a table: a model and how it is fine-tuned."""

    label: str  # unique in the table
    model: Model
    finetuning: str = ""  # flags of finetune
    paper: tuple[float, ...] = ()  # figures as printed
    at: float = 1.0  # fraction of the steps of pre-training after which the model is taken
    x: float = 0.0  # place in the picture, if that has lines
    line: str = ""  # there


class Column(NamedTuple):
    """Columns of a table: one for each task that `tasks` chooses."""

    tasks: Callable[[Sequence[StudyTask]], Sequence[StudyTask]]
    suffix: str = ""  # behind the name of the task
    finetuning: str = ""  # flags of finetune


class Study(NamedTuple):
    """A study; runs are done in the order of its rows."""

    title: str
    question: str
    paper: str  # the table of the paper, or what it says where it has none
    paper_columns: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Row]
    # The rows behind each, such as "A > B; B > C": the first is higher, alike (=), or lower (<, of
    # perplexity); after "features: " only in columns with that suffix.
    claims: Mapping[str, str]
    paper_rows: Mapping[str, Sequence[float]] = {}  # where they are not those of `rows`
    perplexity: bool = False  # whether a column has that of held-out examples
    axis: str = ""  # label of the x axis; without, the picture has a dot for each row
    logarithmic: bool = False
    all_seeds: bool = False  # whether models are pre-trained with all seeds of the preset


ALL = Column(lambda tasks: tasks)
FIRST = Column(lambda tasks: tasks[:1])
# Without a tagging task, the first one takes its place: a BiLSTM reads all tokens.
TAGGING = Column(lambda tasks: [t for t in tasks if t.per_token] or tasks[:1])

_PAIRS, _MASKED = "--objective=mlm_nsp", "--model={size} --sinusoidal_positions"
BERT = Model("bert", _PAIRS, _MASKED)
NO_NSP = Model("no-nsp", "--objective=mlm", _MASKED)
_GPT = "--model=openai-gpt-{size} --sinusoidal_positions"
LEFT_TO_RIGHT = Model("left-to-right", "--objective=left_to_right", _GPT)
_ELMO = Model("elmo", "--objective=bidirectional_lm", "--model={elmo}", words=True)
# One step, which changes no weight by more than float32 can tell: the first weights of BERT.
_STILL = "--steps=1 --warmup_steps=0 --learning_rate=1e-12"
UNTRAINED = Model("untrained", _PAIRS, f"{_MASKED} {_STILL}")
_BILSTM = "--bilstm_layers=1 --bilstm_width={width}"


def _frozen(layers: str) -> str:
    """Flags of the feature-based approach (5.3): a two-layer BiLSTM reads frozen layers."""
    return f"--freeze=all --head_layers={layers} --bilstm_layers=2 --bilstm_width={{width}}"


def _split(mask: int, same: int, random: int, *paper: float) -> Row:
    """Percentages of the mask token, of the token itself, and of a random one."""
    fractions = f"--mask_fraction={mask / 100:g} --random_fraction={random / 100:g}"
    model = Model(f"mask-{mask}-{same}-{random}", f"{_PAIRS} {fractions}", _MASKED)
    return Row(f"{mask}/{same}/{random}", model, paper=paper)


def _sized(size: str, layers: int, width: int, pretraining: str = "", tuning: str = "") -> Row:
    model = Model(f"bert-{size}", _PAIRS, f"{_MASKED.format(size=size)} {pretraining}")
    return Row(f"{layers} x {width}", model, tuning, x=12 * layers * width**2)


_COUNTS = {30: 30, 100: 30, 300: 30, 1000: 20, 3000: 8}  # training examples, and their epochs
_AT_EVERY_COUNT = "; ".join(f"BERT, {n} > not pre-trained, {n}" for n in _COUNTS)
_BEST = "concatenation of the last four"

STUDIES = {
    "pretraining": Study(
        "What pre-training brings (Table 5, Figure 3)",
        "Does it help to read both ways, and to predict the next sentence?",
        "Table 5, dev: BERT-Base",
        ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD F1"),
        (ALL,),
        (
            # First, as it is cheap: it shows whether the data of the tasks can be read.
            Row("not pre-trained", UNTRAINED),
            Row("BERT", BERT, "", (84.4, 88.4, 86.7, 92.7, 88.5)),
            Row("static embeddings + BiLSTM", BERT, _frozen("embeddings")),
            Row("no NSP", NO_NSP, "", (83.9, 84.9, 86.5, 92.6, 87.9)),
            Row("left-to-right, no NSP", LEFT_TO_RIGHT, "", (82.1, 84.3, 77.5, 92.1, 77.8)),
            Row("left-to-right + BiLSTM", LEFT_TO_RIGHT, _BILSTM, (82.1, 84.1, 75.7, 91.6, 84.9)),
        ),
        {
            "Next-sentence prediction helps": "BERT > no NSP",
            "Reading both ways helps": "no NSP > left-to-right, no NSP",
            "A BiLSTM does not make up for one direction": "no NSP > left-to-right + BiLSTM",
            "Pre-training helps": "BERT > not pre-trained",
            "Vectors in context are better than static ones": "BERT > static embeddings + BiLSTM",
        },
        all_seeds=True,
    ),
    "curves": Study(
        "Learning curves of fine-tuning",
        "How many labelled examples does fine-tuning need, and how many more without BERT?",
        "no table: the paper says that pre-training makes small tasks profit most",
        (),
        (FIRST,),
        [
            Row(f"{line}, {n}", model, f"--train_examples={n} --epochs={epochs}", x=n, line=line)
            for n, epochs in _COUNTS.items()
            for line, model in (("BERT", BERT), ("not pre-trained", UNTRAINED))
        ],
        {
            "Pre-training helps at every number of examples": _AT_EVERY_COUNT,
            "More examples help": "BERT, 3000 > BERT, 30",
        },
        axis="training examples",
        logarithmic=True,
    ),
    "steps": Study(
        "Steps of pre-training (appendix C.1)",
        "Does more help, and is masked LM, with 15 % of the tokens, slower than left-to-right?",
        "Figure 5 is a plot; its text says: BERT-Base gains almost 1.0 % on MNLI from 500,000 to "
        "1,000,000 steps, and masked LM passes left-to-right almost at once",
        (),
        (FIRST,),
        [
            Row(f"{line}, {at:.0%}", model, at=at, x=100 * at, line=line)
            for line, model in (("masked LM", BERT), ("left-to-right", LEFT_TO_RIGHT))
            for at in (0.1, 0.2, 0.5, 1.0)  # see --keep_at
        ],
        {
            "More steps help masked LM": "masked LM, 100% > masked LM, 10%",
            "Masked LM is ahead at the end": "masked LM, 100% > left-to-right, 100%",
            "Masked LM is ahead almost at once": "masked LM, 10% > left-to-right, 10%",
        },
        axis="steps of pre-training (%)",
    ),
    "size": Study(
        "The size of the model (Table 6)",
        "Are larger models better, also at tasks with little data?",
        "Table 6, dev (layers x width, heads)",
        ("LM perplexity", "MNLI-m", "MRPC", "SST-2"),
        (ALL,),
        (
            _sized("debug", 1, 64),
            _sized("tiny", 2, 128),
            _sized("mini", 4, 256, "--learning_rate=1e-3", "--learning_rate=3e-4"),
        ),
        {
            "Larger is better": "4 x 256 > 1 x 64",
            "Perplexity falls with the size": "2 x 128 < 1 x 64; 4 x 256 < 2 x 128",
        },
        {
            "3x768, 12": (5.84, 77.9, 79.8, 88.4),
            "6x768, 3": (5.24, 80.6, 82.2, 90.7),
            "6x768, 12": (4.68, 81.9, 84.8, 91.3),
            "12x768, 12": (3.99, 84.4, 86.7, 92.9),
            "12x1024, 16": (3.54, 85.7, 86.9, 93.3),
            "24x1024, 16": (3.23, 86.6, 87.8, 93.7),
        },
        perplexity=True,
        axis="weights of all blocks",
        logarithmic=True,
    ),
    "features": Study(
        "The feature-based approach (Table 7)",
        "How far do features of frozen layers get, and are they better than those of an ELMo?",
        "Table 7: CoNLL-2003 dev F1, BERT-Base",
        ("NER",),
        (TAGGING,),
        (
            Row("fine-tuned", BERT, "", (96.4,)),
            Row("embeddings", BERT, _frozen("embeddings"), (91.0,)),
            Row("second-to-last layer", BERT, _frozen("second_to_last"), (95.6,)),
            Row("last layer", BERT, _frozen("last"), (94.9,)),
            Row("weighted sum of the last four", BERT, _frozen("weighted_last_4"), (95.9,)),
            Row(_BEST, BERT, _frozen("concat_last_4"), (96.1,)),
            Row("weighted sum of all layers", BERT, _frozen("weighted_all"), (95.5,)),
            Row("ELMo", _ELMO, _frozen("weighted_each"), (95.7,)),
        ),
        {
            "The last four layers are about as good as fine-tuning": f"fine-tuned = {_BEST}",
            "They are better than the last layer alone": f"{_BEST} > last layer",
            "They are better than the embeddings, without context": f"{_BEST} > embeddings",
            "They are better than those of an ELMo": f"{_BEST} > ELMo",
            "Fine-tuning is better than an ELMo": "fine-tuned > ELMo",
        },
    ),
    "masking": Study(
        "Mask, same or random (Table 8)",
        "Fine-tuning sees no mask: does it matter what stands for the tokens that are predicted?",
        "Table 8, dev: BERT-Base (mask/same/random)",
        ("MNLI fine-tuned", "NER fine-tuned", "NER features"),
        (
            Column(lambda tasks: [t for t in tasks if not t.per_token][:1], ", fine-tuned"),
            Column(lambda tasks: [t for t in tasks if t.per_token][:1], ", fine-tuned"),
            Column(lambda tasks: TAGGING.tasks(tasks)[:1], ", features", _frozen("concat_last_4")),
        ),
        (
            Row("80/10/10", BERT, "", (84.2, 95.4, 94.9)),
            _split(100, 0, 0, 84.3, 94.9, 94.0),
            _split(80, 0, 20, 84.1, 95.2, 94.6),
            _split(80, 20, 0, 84.4, 95.2, 94.7),
            _split(0, 20, 80, 83.7, 94.8, 94.6),
            _split(0, 0, 100, 83.6, 94.9, 94.6),
        ),
        {
            "Fine-tuning is robust to the split": "fine-tuned: 80/10/10 = 100/0/0; "
            "80/10/10 = 80/0/20; 80/10/10 = 80/20/0; 80/10/10 = 0/20/80; 80/10/10 = 0/0/100",
            "Masks alone are a problem for features": "features: 80/10/10 > 100/0/0",
            "Random tokens alone are worse than the paper's split": "80/10/10 > 0/0/100",
        },
    ),
}
