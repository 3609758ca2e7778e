"""Runs a command as another user. Arguments: the user's number, the command and its flags."""

import os
import sys

from bert_tf import __main__

if __name__ == "__main__":
    _, user, *words = sys.argv
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
    os.environ["HOME"] = "/nonexistent"
    sys.argv = ["bert-tf", *words]
    __main__.main()
