"""``faultloom-python``: starts a program with the hooks installed, without a change to it.

    faultloom-python app.py ARGUMENT…      a script, with this interpreter
    faultloom-python -m module ARGUMENT…   any option of the interpreter
    faultloom-python flask run             a console program, looked up in PATH
    faultloom-python --path                prints the folder to put into PYTHONPATH
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Dict, List, Tuple

BOOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "boot")


def environment(environ: Dict[str, str]) -> Dict[str, str]:
    """``environ`` with our folder first in PYTHONPATH."""
    entries = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != BOOT]
    return {**environ, "PYTHONPATH": os.pathsep.join([BOOT, *entries])}


def command(arguments: List[str]) -> Tuple[str, List[str]]:
    """The program to execute and its arguments. Raises FileNotFoundError if there is none."""
    first = arguments[0]
    if first.startswith("-") or first.endswith((".py", ".pyz", ".pyc")) or os.path.isdir(first):
        return sys.executable, [sys.executable, *arguments]
    # beside our interpreter first: that is where the virtual environment keeps its programs
    beside = os.path.join(os.path.dirname(sys.executable), first)
    program = beside if os.sep not in first and os.access(beside, os.X_OK) and not os.path.isdir(beside) else shutil.which(first)
    if program is None:
        raise FileNotFoundError(first)
    return program, [first, *arguments[1:]]


def main() -> int:
    """Replaces this process; returns only if that is impossible (2: usage, 127: no such program)."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments[0] == "--path":
        print(BOOT)
        return 0
    try:
        program, argv = command(arguments)
        os.execve(program, argv, environment(dict(os.environ)))
    except FileNotFoundError as error:
        print(f"faultloom-python: {error.args[0] if len(error.args) == 1 else program}: not found", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main())
