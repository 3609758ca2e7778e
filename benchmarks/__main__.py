"""The benchmarks as a command: python -m benchmarks [flags]; see `benchmarks.run`."""

import sys

from pipelines.common import command_line

if __name__ == "__main__":
    command_line.run("python -m benchmarks", "benchmarks.run", sys.argv[1:])
