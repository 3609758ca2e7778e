"""Prints all flags of all commands with their defaults: python -m tests.list_flags > tests/flags.txt"""

from bert_tf import __main__
from pipelines.common import command_line, flag_help


def main() -> None:
    """Prints a line for each flag."""
    for command, (module, _) in __main__.COMMANDS.items():
        if command in __main__.PRESETS:  # it has the flags of another one
            continue
        for flag in command_line.flags_of(module).values():
            print(f"{command} --{flag.name}: {flag_help.default(flag) or 'no default'}")


if __name__ == "__main__":
    main()
