"""Flags that several commands share."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

from pipelines.common.errors import InputError
from pipelines.common.flag_types import WORDS, Count, Group, Name, Range, choice
from pipelines.common.settings import Settings
from pipelines.common.texts import UTF8
from pipelines.corpus import FORMATS

if TYPE_CHECKING:
    from pipelines.common.runners import Runner
    from pipelines.corpus import reader
    from pipelines.labelled.source import Source
    from pipelines.labelled.text_files import TextFile

MaxLength = Annotated[int | None, Range(minimum=8), Group.MODEL]  # of the sequences of a model
_LOCAL, _BEAM = "local", "beam"
_Utf8Errors = Annotated[str, choice(("strict", "replace"))]
_Switch = Annotated[str, choice(("auto", "true", "false"))]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleTable(Settings):
    """The layout of labelled files.

    Flags:
      columns: Columns by role, such as text=review,label=stars. A column is given by its name in
        the header, by its number from 1 (if there is no header), as a path in JSON (labels.label),
        or as several that are joined (title+text, 2+3). Roles: id, text, text_a, text_b, negative,
        label, labels, words, tags, entities, question, context, answer, answer_start, choices,
        source, target, sentence, sentence1, sentence2, premise, hypothesis. Not given: usual names,
        such as text or sentence1.
      header: Whether the first line of a table names its columns. Not given: it is detected.
      encoding: Encoding of the input, such as cp1252, utf-16 or shift_jis.
      utf8_errors: What happens if bytes are not UTF-8. strict: an error that names the place;
        replace: U+FFFD takes their place.
    """

    columns: dict[str, str] | None = None
    header: bool | None = None
    encoding: str = UTF8
    utf8_errors: _Utf8Errors = "strict"

    @property
    def roles(self) -> dict[str, str]:
        """Names of columns by role."""
        return self.columns or {}

    @property
    def codec(self) -> str:
        """The encoding, for the readers of files; raises InputError if both flags contradict."""
        if self.utf8_errors == "strict":
            return self.encoding
        if self.encoding != UTF8:
            raise InputError("--utf8_errors=replace: is for UTF-8; leave out --encoding.")
        from pipelines.labelled.text_lines import UTF8_REPLACED

        return UTF8_REPLACED

    def source(self, path: str) -> "Source":
        """A file with this layout."""
        from pipelines.labelled.source import Source

        return Source(path, self.roles, self.header, self.codec)

    def text_file(self, path: str, **others: Any) -> "TextFile":
        """A file of texts with this layout; `others` are further fields of it."""
        from pipelines.labelled.text_files import TextFile

        return TextFile(path, self.roles, self.header, self.codec, **others)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTable(ExampleTable):
    """The layout of files of texts.

    Flags:
      columns: Columns by role, such as text=review. A column is given by its name in the header, by
        its number from 1 (if there is no header), as a path in JSON (labels.label), or as several
        that are joined (title+text, 2+3). Roles: text, or text_a and text_b of pairs; id. Not
        given: usual names, such as text or sentence1.
    """

    columns: dict[str, str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureTable(ExampleTable):
    """The layout of files of texts or words, with their labels.

    Flags:
      columns: Columns by role, such as text=review. A column is given by its name in the header, by
        its number from 1 (if there is no header), as a path in JSON (labels.label), or as several
        that are joined (title+text, 2+3). Roles: text, or text_a and text_b of pairs; label; id;
        for files of words, words and tags, by number if there is one word per line
        (words=1,tags=4). Not given: usual names, such as text or sentence1.
    """

    columns: dict[str, str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusFlags(Settings):
    """A corpus, and how it is read.

    Flags:
      corpus: The corpus: files or globs, separated by commas or blanks; plain or compressed (.gz,
        .bz2, .xz, .zst), local or remote (gs://). In local ones, ** stands for any number of
        folders.
      format: Format of the files. sentences: a sentence per line, a blank line between documents;
        prose: a document per file; jsonl: a document per line of JSON; wikiextractor: a document
        per <doc>; parquet, arrow: a document per row; wet: texts of Common Crawl. auto: detected
        for each file.
      text_field: Field of JSON Lines, or column of tables, that has the text. Several, separated by
        commas: the first that a row has, for files of different fields.
      utf8_errors: What happens if bytes are not UTF-8. strict: an error that names the place;
        replace: U+FFFD takes their place.
    """

    corpus: str
    format: Annotated[str, choice(("auto", *FORMATS))] = "auto"
    text_field: str = "text"
    utf8_errors: _Utf8Errors = "strict"

    def files(self) -> "list[reader.CorpusFile]":
        """The files of the corpus."""
        from pipelines.corpus import reader

        return reader.open_corpus(self.corpus, self.format)

    def options(self) -> "reader.ReadOptions":
        """How the files are read."""
        from pipelines.corpus import reader

        return reader.ReadOptions(self.text_field, self.utf8_errors)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptionalCorpus(CorpusFlags):
    """A corpus that need not be given.

    Flags:
      corpus: The corpus, as of `bert-tf learn-vocabulary`. Not given: --words.
    """

    corpus: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerFlags(Settings):
    """How text is normalized.

    Flags:
      lower_case: Convert text to lower case; not for byte-level BPE. auto: as the files of the
        model specify, else unless a token of the vocabulary has capital letters. A new vocabulary
        is lower-case unless this is false, one of words only if it is true.
      strip_accents: Remove accents. auto: as --lower_case; with SentencePiece true. Use false for
        Korean, whose letters it would decompose.
    """

    lower_case: _Switch = "auto"
    strip_accents: _Switch = "auto"

    def chosen(self) -> dict[str, bool]:
        """The settings of the tokenizer that the user chose."""
        return {name: value == "true" for name, value in vars(self).items() if value != "auto"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerFlags(Settings):
    """Where the work is done: on this machine or on a cluster.

    Flags:
      kind: Where the work is done, with the same result. local: processes of this machine; beam:
        Apache Beam, on the cluster that --pipeline names. All paths must then be on storage that
        its workers share.
      workers: Number of processes of --runner=local. Not given: one for each core.
      pipeline: Options of Apache Beam's pipeline, for --runner=beam, as one text; they may also
        follow all flags and --. Not given: Beam runs on this machine.
    """

    group = Group.MACHINE

    kind: Annotated[str, choice((_LOCAL, _BEAM)), Name("runner")] = _LOCAL
    workers: Count | None = None
    pipeline: Annotated[tuple[str, ...] | None, WORDS] = None

    def start(self, module: str) -> None:
        """Starts the server of the worker processes, if there will be any.

        Args:
          module: The module of their functions.
        """
        from pipelines.common import machine, parallel

        if self.kind != _BEAM and (self.workers or machine.cores()) > 1:
            parallel.start_server(module)

    def runner(self) -> "Runner":
        """The chosen runner.

        Raises:
          InputError: Flags of the other runner were given, or Beam is not installed.
        """
        from pipelines.common import runners

        options = self.pipeline or ()
        if self.kind == _BEAM:
            if self.workers is not None:
                raise InputError(
                    "--workers is for --runner=local; give the number of Beam's workers as an "
                    "option of its pipeline, after --."
                )
            from pipelines.common import beam_runner

            return beam_runner.BeamRunner(options)
        if options:
            raise InputError(
                f"options of a pipeline ({options[0]} ...) are for --runner=beam; add it, or omit "
                "them."
            )
        return runners.LocalRunner(self.workers)
