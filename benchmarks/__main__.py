"""The benchmarks as a command: python -m benchmarks [flags]."""

from benchmarks import run

if __name__ == "__main__":
    run.main()
