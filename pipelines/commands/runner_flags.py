"""Flags of the commands that run on this machine or on a cluster."""

from typing import TYPE_CHECKING

from absl import flags

from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group

if TYPE_CHECKING:
    from pipelines.common.runners import Runner

_LOCAL, _BEAM = "local", "beam"


class RunnerFlags:
    """The flags, which are defined for the command that makes it."""

    def __init__(self) -> None:
        with flag_types.group(Group.MACHINE):
            self._runner = flags.DEFINE(
                flag_types.ChoiceParser((_LOCAL, _BEAM)),
                "runner",
                _LOCAL,
                "Who does the work; the result is the same. local: processes of this machine. "
                "beam: Apache Beam, on whatever the options of its pipeline name; all paths are "
                "then on storage that its workers share.",
            )
            self._workers = flags.DEFINE(
                flag_types.NumberParser(int, minimum=1),
                "workers",
                None,
                "Processes of --runner=local; the result is the same. Not given: one for each "
                "core.",
            )
            self._pipeline = flags.DEFINE(
                flag_types.WordsParser(),
                "pipeline",
                None,
                "Options of Apache Beam's pipeline, for --runner=beam, as one text; or, as they "
                "are, behind all flags and --. Not given: none, and Beam runs on this machine.",
            )

    def runner(self) -> "Runner":
        """The one that was chosen.

        Raises:
          InputError: flags of the other one were given, or Beam is not installed.
        """
        from pipelines.common import runners

        options = self._pipeline.value or ()
        if self._runner.value == _BEAM:
            if self._workers.value is not None:
                raise InputError(
                    "--workers is of --runner=local; how many workers Beam has is an option of its "
                    "pipeline, behind --."
                )
            from pipelines.common import beam_runner

            return beam_runner.BeamRunner(options)
        if options:
            raise InputError(
                f"options of a pipeline were given ({options[0]} ...), which "
                "--runner=beam takes; give it, or leave them out."
            )
        return runners.LocalRunner(self._workers.value)
