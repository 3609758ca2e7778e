"""The runs that the figures of the studies come from: ordinary commands in ordinary folders."""

import itertools
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from bert_tf import tasks as task_kinds
from bert_tf.experiments import own_tasks, studies
from bert_tf.experiments.studies import PERPLEXITY, PRESETS, STUDIES, Column, Model, Row, StudyTask
from bert_tf.finetuning import task_data
from bert_tf.finetuning.settings import TaskRequest
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.training import hardware
from pipelines.common import files, json_files, manifest, path_lists
from pipelines.common.errors import InputError

IDENTITY, OWN_TASKS = "experiments.json", "own_tasks"
_REPORT = "/report.json"
_TASK = re.compile(
    r"(?:(?P<name>[A-Za-z0-9][\w.-]*):)?(?P<kind>\w+)=(?P<path>[^?]+)(?:\?(?P<columns>.*))?"
)


class Request(NamedTuple):
    """What the user asks for."""

    output: str  # folder for everything
    corpus: str  # text to pre-train on: files or globs
    tasks: str  # as the user writes them; "": made from the corpus
    vocab: str | None  # None: one is learned
    budget: str  # name of the preset


class CommandRun(NamedTuple):
    """A command and its flags."""

    name: str  # path of its output below the folder of the experiments
    words: tuple[str, ...]
    mark: str  # path of the file of its output that is written last
    need: "CommandRun | None" = None  # the run whose output it reads

    @property
    def done(self) -> bool:
        """Whether it is finished."""
        return files.gfile.exists(self.mark)

    def report(self) -> dict[str, Any] | None:
        """The report of a model that is trained; None for all other runs."""
        trained = self.mark.endswith(_REPORT) and self.done
        return json_files.read(self.mark, dict[str, Any], finite=False) if trained else None


class Plan:
    """All runs of a request; those with the same flags are one, named after the first."""

    def __init__(
        self, request: Request, tasks: Sequence[StudyTask], corpus: dict[str, str], precision: str
    ):
        self.request, self.tasks, self.precision = request, tasks, precision
        self.preset = PRESETS[request.budget]
        self._corpus, self._known = corpus, dict[tuple[str, ...], CommandRun]()
        self._values = {
            **self.preset._asdict(),
            **{"warmup_steps": self.preset.steps // 20, "precision": precision},
            "elmo": f"{request.output}/elmo.json",
        }
        self.tables: dict[str, dict[str, dict[str, tuple[CommandRun, ...]]]] = {}  # row, column
        for name, study in STUDIES.items():
            table = self.tables[name] = {row.label: {} for row in study.rows}
            seeds = self.preset.pretraining_seeds if study.all_seeds else (1,)
            for row in study.rows:
                if study.perplexity:
                    table[row.label][PERPLEXITY] = (self._pretraining(row.model, 1),)
                for column in study.columns:
                    for task in column.tasks(tasks):
                        runs = tuple(self._finetuning(row, column, task, seed) for seed in seeds)
                        table[row.label][f"{task.name}{column.suffix}"] = runs

    def runs(self, names: Iterable[str]) -> list[CommandRun]:
        """The runs of studies, each once, in an order in which they can be done."""
        found: dict[str, CommandRun] = {}
        for row in (row for name in names for row in self.tables[name].values()):
            for run in itertools.chain.from_iterable(row.values()):
                chain = [run]
                while need := chain[-1].need:
                    chain.append(need)
                found |= {each.name: each for each in reversed(chain) if each.name not in found}
        return list(found.values())

    def _pretraining(self, model: Model, seed: int) -> CommandRun:
        output, need, vocab = self.request.output, None, self.request.vocab
        if model.words or not vocab:
            name, mark, flags = "vocab.txt", "", studies.VOCABULARY
            if model.words:
                name, mark, flags = "words", "/words.txt", studies.WORDS
            need = self._run(name, "learn-vocabulary", mark, [flags], None, **self._corpus)
            vocab = f"{output}/{name}"
        name = "-".join(word.partition("=")[2] for word in model.examples.split())
        texts = [studies.EXAMPLES, model.examples]
        paths, mark = {**self._corpus, "vocab": vocab}, "/manifest.json"
        examples = self._run(f"examples/{name}", "write-examples", mark, texts, need, **paths)
        name = f"pretraining/{model.name}{'' if seed == 1 else f'-seed{seed}'}"
        texts = [studies.PRETRAINING, model.pretraining, f"--seed={seed}"]
        path = f"{output}/{examples.name}"
        return self._run(name, "pretrain", _REPORT, texts, examples, tfrecords=path)

    def _finetuning(self, row: Row, column: Column, task: StudyTask, seed: int) -> CommandRun:
        output, model = self.request.output, self._pretraining(row.model, seed)
        init = f"{output}/{model.name}"
        if row.at < 1:
            init += f"/checkpoints/checkpoint-{max(1, round(row.at * self.preset.steps)):08d}"
        paths = {"task": f"{task.name}={task.kind}", "data": task.data, "columns": task.columns}
        paths |= {"init": init, "cache": f"{output}/cache"}
        label = re.sub(r"[^a-z0-9]+", "-", f"{row.label}{column.suffix}".lower()).strip("-")
        name = f"finetuning/{label}-{task.name}{'' if seed == 1 else f'-seed{seed}'}"
        texts = [studies.FINETUNING, row.finetuning, column.finetuning]
        return self._run(name, "finetune", _REPORT, texts, model, **paths)

    def _run(
        self,
        name: str,
        command: str,
        mark: str,
        texts: list[str],
        need: CommandRun | None,
        **paths: str,
    ) -> CommandRun:
        """The run with the flags of texts, of which later ones win; a new one has the name."""
        given = (word.format(**self._values) for text in texts for word in text.split())
        words = [command, *{word.partition("=")[0]: word for word in given}.values()]
        words += [f"--{flag}={path}" for flag, path in paths.items() if path]
        output = f"{self.request.output}/{name}"
        run = CommandRun(name, (*words, f"--output={output}"), f"{output}{mark}", need)
        return self._known.setdefault(tuple(words), run)


def parse_task(entry: str) -> StudyTask:
    """Reads KIND=PATH or NAME:KIND=PATH, with columns after a question mark.

    Raises:
      InputError: it has another form, its kind is unknown or has no head, or its path is missing.
    """
    match = _TASK.fullmatch(entry)
    if not match:
        raise InputError(
            f"--tasks={entry}: a task is KIND=PATH or NAME:KIND=PATH, such as rte=glue/RTE or "
            "reviews:classification=reviews.csv?text=review&label=stars."
        )
    kind, name, path = match["kind"], match["name"] or match["kind"], match["path"]
    if kind not in task_kinds.kinds():
        raise InputError(
            f"--tasks={entry}: unknown task {kind}; use {', '.join(task_kinds.kinds())}."
        )
    task = task_kinds.make(kind)
    if not task.own_head:
        raise InputError(f"--tasks={entry}: the studies compare heads, and {kind} has none.")
    if not files.gfile.exists(path):
        raise InputError(f"--tasks: {path}: no such file or folder (task {name}).")
    return StudyTask(name, kind, path, (match["columns"] or "").replace("&", ","), task.per_token)


def make(request: Request) -> Plan:
    """Makes the plan of a request in its folder, and tasks if none are named.

    Raises:
      InputError: the data cannot be read, or the folder is of other experiments.
    """
    output, path = request.output, f"{request.output}/{IDENTITY}"
    sources = [*path_lists.expand_globs(request.corpus), *filter(None, [request.vocab])]
    corpus, entries = {"corpus": request.corpus}, path_lists.entries(request.tasks)
    begun = json_files.read(path, dict[str, Any]) if files.gfile.exists(path) else {}
    if not entries:
        # Those of an attempt that wrote nothing else may be of another corpus.
        rest, entries = own_tasks.make(request.corpus, f"{output}/{OWN_TASKS}", bool(begun))
        corpus = {"corpus": rest, "format": "sentences"}
    tasks = list(map(parse_task, entries))
    names = [task.name for task in tasks]
    for task in tasks:
        if names.count(task.name) > 1:
            raise InputError(f"--tasks: two tasks are named {task.name}; use NAME:KIND=PATH.")
        sources += task_data.files_of(TaskRequest(task.kind, task.name, task.data))
    # Measured once: a machine that is busy for a while must not divide models into two kinds.
    precision = begun.get("precision") or hardware.resolve_precision("auto")
    plan = Plan(request, tasks, corpus, precision)
    identity = {
        **{name: value for name, value in request._asdict().items() if name != "output"},
        "precision": precision,
        "inputs": [
            {"path": each.replace(f"{output}/", ""), "sha256": files.sha256(each)}
            for each in sources
        ],
        "runs": {
            run.name: shlex.join(run.words).replace(f"{output}/", "") for run in plan.runs(STUDIES)
        },
    }
    other = manifest.begin(path, identity)
    if other:
        raise InputError(
            f"{output}: is of experiments with other {other}. Name another folder (--output, "
            "OUT=), or remove this one."
        )
    ElmoConfig.named(f"elmo-{plan.preset.size}", **studies.ELMO).save(f"{output}/elmo.json")
    return plan
