"""The packages import each other in one direction, and one module distinguishes the kinds of faults."""

from __future__ import annotations

import ast
import re

from conftest import SOURCE

from faultloom.wire.plan import KINDS

ALLOWED = {
    "wire": {"wire"},
    "trust": {"wire", "trust", "log"},
    "scope": {"wire", "trust", "scope", "log"},
    "entry": {"wire", "trust", "entry", "log"},
}


def imports_of(file):
    """The first components, below the package, of what a module imports relatively."""
    parts = file.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = list(parts[: len(parts) - (node.level - 1)])
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from ((*base, *name.split("."))[0] for name in names)


def test_packages_import_in_one_direction():
    for package, allowed in ALLOWED.items():
        files = list((SOURCE / package).glob("*.py"))
        assert len(files) > 3
        for file in files:
            assert set(imports_of(file)) <= allowed, file


def test_only_the_dispatcher_and_the_codec_name_kinds_of_faults():
    kinds = re.compile("|".join(f'"{kind}"' for kind in KINDS if kind not in ("status", "deadline", "reset")))
    naming = {file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py") if kinds.search(file.read_text())}
    assert naming == {"hooks/faults.py", "wire/plan.py", "starting.py"}  # the last one in an example
