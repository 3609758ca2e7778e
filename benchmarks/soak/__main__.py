"""Fault injection as a command: python -m benchmarks.soak [flags]."""

from benchmarks.soak import run

if __name__ == "__main__":
    run.main()
