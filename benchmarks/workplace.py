"""A folder in which benchmarks train models on one corpus, by the commands; nothing is repeated."""

import dataclasses
import subprocess
import sys
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Workplace:
    """The folder, and the corpus: text files, as for write-examples."""

    folder: Path
    corpus: str

    def command(self, name: str, *arguments: str) -> None:
        """Runs a command of bert-tf; its output goes to a log in the folder."""
        command = [sys.executable, "-m", "bert_tf", name, *arguments]
        print("$", " ".join(command), flush=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log.txt").open("a") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log)

    def vocabulary(self, kind: str = "wordpiece") -> Path:
        """The vocabulary of the built-in recipe, of a kind."""
        path = self.folder / f"vocabulary-{kind}"
        if not path.exists():
            recipe = ("--flagfile=recipes/vocabulary.flags", f"--kind={kind}")
            files = (f"--corpus={self.corpus}", f"--output={path}")
            self.command("learn-vocabulary", *recipe, *files)
        return path

    def examples(self, changes: tuple[str, ...] = (), kind: str = "wordpiece") -> Path:
        """The folder of examples of the built-in recipe with changes of their flags."""
        folder = self.folder / "-".join(["examples", *(x.strip("-") for x in changes)])
        if not (folder / "manifest.json").exists():
            recipe = ("--flagfile=recipes/examples.flags", f"--vocab={self.vocabulary(kind)}")
            files = (f"--corpus={self.corpus}", f"--output={folder}")
            self.command("write-examples", *recipe, *files, *changes)
        return folder
