"""The test bench of faults as a command: python -m benchmarks.soak [flags]; see `run`."""

import sys

from pipelines.common import command_line

if __name__ == "__main__":
    command_line.run("python -m benchmarks.soak", "benchmarks.soak.run", sys.argv[1:])
