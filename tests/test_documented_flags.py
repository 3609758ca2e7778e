"""The list of all flags; flags in documents, recipes, studies, the Makefile and messages exist."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from bert_tf import __main__
from pipelines.common import arguments, command_line, foreign_flags
from pipelines.common.errors import InputError
from tests import list_flags
from tests.bert_tf.experiments import test_studies

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RECIPES = sorted((ROOT / "recipes").glob("*.flags"))
SOURCES = [
    path for room in ("bert_tf", "pipelines") for path in sorted((ROOT / room).rglob("*.py"))
]
# Flags of the programs of others, by the file that names them.
FOREIGN = {
    "docs/guides/pretraining.md": {"json"},  # WikiExtractor
    "docs/guides/your_language.md": {"json"},
    "pipelines/commands/write_examples.py": {"region"},  # Apache Beam
    "docs/guides/reliability.md": {"work"},  # benchmarks.soak
    "bert_tf/weights/named_models.py": {"no"},  # pip: --no-deps
    "bert_tf/weights/tf1.py": {"do_lower_case"},  # google-research/bert
    "bert_tf/training/progress.py": {"logdir"},  # TensorBoard
    "bert_tf/serving/docker.py": {  # docker, and TensorFlow Serving
        "rm", "mount", "enable_batching", "batching_parameters_file", "model_name",
        "model_base_path", "port", "rest_api_port", "xla_cpu_compilation_enabled",
        "tensorflow_intra_op_parallelism", "tensorflow_inter_op_parallelism",
    },
}  # fmt: skip
# Those of all commands, of the tools that make a form of flags plain, and of absl.
ALWAYS = {"flag", "version", "help", "helpshort", "helpfull", "flagfile", "more_flags"}
_FLAG = re.compile(r"(?<![\w-])--(?:no_)?+([a-z]\w*)")


def _joined(text):
    """A text whose lines that end in a backslash are one with the next."""
    return re.sub(r"\\\n\s*(?:# +)?", " ", text)


def _commands_in(path):
    """The commands with flags in a file: the name of each, and its words."""
    text = path.read_text()
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    text = "\n".join(line.removeprefix("#") for line in _joined(text).splitlines())
    for match in re.finditer(r"\bbert-tf ([a-z-]+) ([^`\n]*)", text):
        if match[1] in __main__.COMMANDS and "--" in match[2] and match[2].strip() != "--help":
            yield match[1], shlex.split(match[2])


def _asked():
    """Whole commands that a reader may copy: where each stands, the command and its words."""
    paths = [*DOCUMENTS, *RECIPES, *(p for p in SOURCES if p.parent.name == "commands")]
    shown = [(path.relative_to(ROOT), *found) for path in paths for found in _commands_in(path)]
    runs = [run.words for run in test_studies.make_plan().runs(test_studies.STUDIES)]
    studies = Path("bert_tf/experiments/studies.py")
    return [*shown, *((studies, command, flags) for command, *flags in runs)]


@pytest.fixture(scope="module")
def known():
    """The flags of each command."""
    modules = {command: module for command, (module, _) in __main__.COMMANDS.items()}
    return {name: {*command_line.flags_of(module), *ALWAYS} for name, module in modules.items()}


def test_commands_that_are_shown_are_read_without_a_mistake():
    asked = _asked()
    assert {path.parts[0] for path, *_ in asked} == {
        "README.md", "docs", "recipes", "bert_tf", "pipelines",
    }  # fmt: skip
    assert {command for _, command, _ in asked} == set(__main__.COMMANDS)
    for path, command, words in asked:
        given = [f"--{name}={value}" for name, value in __main__.PRESETS.get(command, {}).items()]
        try:
            arguments.parse([*given, *words], command_line.flags_of(__main__.COMMANDS[command][0]))
        except InputError as error:
            pytest.fail(f"{path}: bert-tf {command}: {error}")


def test_all_flags_are_listed(capsys):
    """A new flag is a decision: python -m tests.list_flags > tests/flags.txt."""
    list_flags.main()
    assert capsys.readouterr().out == (ROOT / "tests" / "flags.txt").read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_flags_in_prose_are_of_some_command(path, known):
    named = set(re.findall(r"`--(?:no_)?+([a-z]\w*)", path.read_text()))
    some = set().union(*known.values()) | FOREIGN.get(str(path.relative_to(ROOT)), set())
    assert named <= some


def _steps():
    """The commands of the targets of the Makefile: target, command, its text."""
    text = _joined((ROOT / "Makefile").read_text())
    targets = []
    for line in text.splitlines():
        if match := re.match(r"([a-z -]+):", line):
            targets = match[1].split()
        for match in re.finditer(r"\$\(BERT_TF(?:_THERE)?\) (\S+) ((?:(?!\$\(BERT_TF).)*)", line):
            for target in targets:
                own = match[1] if re.fullmatch("[a-z-]+", match[1]) else target
                yield target, own.replace("show", "show-examples"), match[2]


def test_flags_in_the_makefile_are_of_their_commands(known):
    steps = list(_steps())
    assert len(steps) >= 18
    for target, command, text in steps:
        # A variable that a command does not use becomes a flag that it refuses.
        always = re.sub(r"\$\(call flag,\S+,(?:INIT|TEACHER|MODEL)\)|.*,\$@\)", "", text)
        assert set(_FLAG.findall(always)) <= known[command], target


def test_flags_in_arguments_of_make_are_of_the_command_of_the_target(known):
    steps = {"bench": None, "soak": None}  # modules of benchmarks, which have flags of their own
    steps |= {target: command for target, command, _ in _steps()}  # the last command of each
    every = set().union(*known.values())
    seen = set()
    for path in [*DOCUMENTS, *RECIPES, *SOURCES]:
        text = re.sub(r"(?<!\n)\n(?!\n)", " ", _joined(path.read_text()))  # a paragraph is a line
        for line in re.sub(r"\bmake +([a-z-]+) ", r"\n\1 ", text).splitlines():
            command = steps.get(line.split(" ")[0], "")
            for kind, quoted, bare in re.findall(
                r"\b([A-Z]+_)?ARGS=(?:'([^']*)'|([^\s`)]*))", line
            ):
                owner = {"VOCAB_": "learn-vocabulary", "EXAMPLE_": "write-examples"}.get(
                    kind, command
                )
                if owner is not None:
                    seen.add(owner)
                    named = set(_FLAG.findall(quoted or bare))
                    assert named <= (known[owner] if owner else every), (path, line)
    assert seen >= {
        "learn-vocabulary",
        "write-examples",
        "pretrain",
        "finetune",
        "predict",
        "embed",
    }


def _texts(path):
    """The texts in a module: what messages are made of."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_foreign_flags_have_ours_of_the_same_meaning(known):
    some = set().union(*known.values())
    assert set(" ".join(foreign_flags.NAMES.values()).split()) <= some
    assert not some & {*foreign_flags.NAMES, *foreign_flags.ALWAYS}
    assert foreign_flags.DIFFERENCES.keys() <= foreign_flags.NAMES.keys()


def test_foreign_flags_in_the_guide_are_known(known):
    text = _joined((ROOT / "docs" / "guides" / "coming_from.md").read_text())
    programs = " ".join(re.findall(r"^    python .*", text, re.M))
    arguments_given = "".join(re.findall(r"\bTrainingArguments\((.*?)\)", text, re.S))
    rows = re.findall(r"^\|(.*)\|.*`--.*\|$", text, re.M)
    theirs = {
        *_FLAG.findall(programs),
        *re.findall(r"(\w+)=", arguments_given),
        *re.findall(r"`([a-z_]+\w*)`", " ".join(rows)),
    }
    assert theirs >= {"version_2_with_negative", "per_device_train_batch_size", "truncate_dim"}
    assert theirs <= {*foreign_flags.NAMES, *foreign_flags.ALWAYS}.union(*known.values())


def test_flags_in_messages_are_of_some_command(known):
    some, wrong, seen = set().union(*known.values()), [], set()
    for path in SOURCES:
        place = str(path.relative_to(ROOT))
        for line, text in _texts(path):
            named = set(_FLAG.findall(text))
            seen |= named
            wrong += [(place, line, n) for n in named - some - FOREIGN.get(place, set())]
    assert wrong == []
    assert {"columns", "learning_rate", "task", "vocab"} <= seen
