"""Flags that several commands share. Each class defines its flags when it is instantiated."""

from typing import TYPE_CHECKING, Any

from absl import flags

from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
from pipelines.common.texts import UTF8
from pipelines.corpus import FORMATS

if TYPE_CHECKING:
    from pipelines.common.runners import Runner
    from pipelines.corpus import reader

_LOCAL, _BEAM = "local", "beam"
_SWITCH = flag_types.ChoiceParser(("auto", "true", "false"))


def _define_utf8_errors() -> flags.FlagHolder:
    return flags.DEFINE(
        flag_types.ChoiceParser(("strict", "replace")),
        "utf8_errors",
        "strict",
        "What happens if bytes are not UTF-8. strict: an error that names the place; replace: "
        "U+FFFD takes their place.",
    )


class EncodingFlags:
    """Flags of commands that read labelled files or files of texts."""

    def __init__(self) -> None:
        self._encoding = flags.DEFINE_string(
            "encoding", UTF8, "Encoding of the input, such as cp1252, utf-16 or shift_jis."
        )
        self._utf8_errors = _define_utf8_errors()

    @property
    def value(self) -> str:
        """The encoding, for the readers of files; raises InputError if both flags contradict."""
        if self._utf8_errors.value == "strict":
            return self._encoding.value
        if self._encoding.value != UTF8:
            raise InputError("--utf8_errors=replace: is for UTF-8; leave out --encoding.")
        from pipelines.labelled.text_lines import UTF8_REPLACED

        return UTF8_REPLACED


class CorpusFlags:
    """Flags of commands that read a corpus."""

    def __init__(self, required: bool = True) -> None:
        self.names: flags.FlagHolder[Any] = flags.DEFINE_string(
            "corpus",
            None,
            "The corpus: files or globs, separated by commas or blanks; plain or compressed (.gz, "
            ".bz2, .xz, .zst), local or remote (gs://). In local ones, ** stands for any number of "
            "folders."
            f"{'' if required else ' Not given: --words.'}",
            required=required,
        )
        self.format = flags.DEFINE(
            flag_types.ChoiceParser(("auto", *FORMATS)),
            "format",
            "auto",
            "Format of the files. sentences: a sentence per line, a blank line between documents; "
            "prose: a document per file; jsonl: a document per line of JSON; wikiextractor: a "
            "document per <doc>; parquet, arrow: a document per row; wet: texts of Common Crawl. "
            "auto: detected for each file.",
        )
        self._text_field = flags.DEFINE_string(
            "text_field",
            "text",
            "Field of JSON Lines, or column of tables, that has the text. Several, separated by "
            "commas: the first that a row has, for files of different fields.",
        )
        self._utf8_errors = _define_utf8_errors()

    def corpus(self) -> "list[reader.CorpusFile]":
        """The files of the corpus."""
        from pipelines.corpus import reader

        return reader.open_corpus(self.names.value, self.format.value)

    def options(self) -> "reader.ReadOptions":
        """How the files are read."""
        from pipelines.corpus import reader

        return reader.ReadOptions(self._text_field.value, self._utf8_errors.value)


class TokenizerFlags:
    """Flags of commands that normalize text."""

    def __init__(self) -> None:
        self._lower_case = flags.DEFINE(
            _SWITCH,
            "lower_case",
            "auto",
            "Convert text to lower case; not for byte-level BPE. auto: as the files of the model "
            "specify, else unless a token of the vocabulary has capital letters. A new vocabulary "
            "is lower-case unless this is false, one of words only if it is true.",
        )
        self._strip_accents = flags.DEFINE(
            _SWITCH,
            "strip_accents",
            "auto",
            "Remove accents. auto: as --lower_case; with SentencePiece true. Use false for Korean, "
            "whose letters it would decompose.",
        )

    def chosen(self) -> dict[str, bool]:
        """The settings of the tokenizer that the user chose."""
        both = (self._lower_case, self._strip_accents)
        return {flag.name: flag.value == "true" for flag in both if flag.value != "auto"}


class RunnerFlags:
    """Flags of commands that run on this machine or on a cluster."""

    def __init__(self) -> None:
        with flag_types.group(Group.MACHINE):
            self._runner = flags.DEFINE(
                flag_types.ChoiceParser((_LOCAL, _BEAM)),
                "runner",
                _LOCAL,
                "Where the work is done, with the same result. local: processes of this machine; "
                "beam: Apache Beam, on the cluster that --pipeline names. All paths must then be "
                "on storage that its workers share.",
            )
            self._workers = flags.DEFINE(
                flag_types.NumberParser(int, minimum=1),
                "workers",
                None,
                "Number of processes of --runner=local. Not given: one for each core.",
            )
            self._pipeline = flags.DEFINE(
                flag_types.WordsParser(),
                "pipeline",
                None,
                "Options of Apache Beam's pipeline, for --runner=beam, as one text; they may also "
                "follow all flags and --. Not given: Beam runs on this machine.",
            )

    def prepare(self, module: str) -> None:
        """Starts the server of the worker processes, if there will be any.

        Args:
          module: The module of their functions.
        """
        from pipelines.common import machine, parallel

        if self._runner.value != _BEAM and (self._workers.value or machine.cores()) > 1:
            parallel.start_server(module)

    def runner(self) -> "Runner":
        """The chosen runner.

        Raises:
          InputError: Flags of the other runner were given, or Beam is not installed.
        """
        from pipelines.common import runners

        options = self._pipeline.value or ()
        if self._runner.value == _BEAM:
            if self._workers.value is not None:
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
        return runners.LocalRunner(self._workers.value)
