"""Packages and modules import each other in one direction, and one module distinguishes the kinds of faults."""

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

#: files by module; a module is the tuple of its names below the package
MODULES = {file.relative_to(SOURCE).with_suffix("").parts: file for file in SOURCE.rglob("*.py")}


def module_of(names):
    """The module that these names select, or that contains the last of them. None: not in this package."""
    parents = (names, names[:-1]) if names else (names,)
    return next((m for parent in parents for m in (parent, (*parent, "__init__")) if m in MODULES), None)


def imports_of(module):
    """The modules of this package that a module imports anywhere: in functions and for type checkers, too."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.ImportFrom):
            names = tuple(node.module.split(".")) if node.module else ()
            imported = [(*names, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            imported = [tuple(alias.name.split(".")) for alias in node.names]
        else:
            continue
        level = getattr(node, "level", 0)
        if level:
            imported = [(*module[: len(module) - level], *names) for names in imported]
        else:
            imported = [names[1:] for names in imported if names[0] == "faultloom"]
        yield from filter(None, map(module_of, imported))


def cycle_in(graph):
    """The nodes of one cycle in order, the first one again at the end; None if there is none."""
    finished = set()

    def visit(node, path):
        if node in path:
            return [*path[path.index(node) :], node]
        if node in finished:
            return None
        cycle = next(filter(None, (visit(other, [*path, node]) for other in graph[node])), None)
        finished.add(node)
        return cycle

    return next(filter(None, (visit(node, []) for node in graph)), None)


def test_packages_import_in_one_direction():
    for package, allowed in ALLOWED.items():
        modules = [module for module in MODULES if module[0] == package]
        assert len(modules) > 3
        for module in modules:
            assert {imported[0] for imported in imports_of(module)} <= allowed, module


def test_modules_import_each_other_in_one_direction():
    graph = {module: sorted(set(imports_of(module))) for module in MODULES}
    assert ("hooks", "grpc", "target") in graph["hooks", "grpc", "client"]
    assert ("hooks", "install") in graph["boot", "sitecustomize"]
    cycle = cycle_in(graph)
    assert cycle is None, " -> ".join("/".join(module) for module in cycle)


def test_a_cycle_is_found_behind_modules_that_are_not_part_of_it():
    assert cycle_in({"a": ["b", "c"], "b": [], "c": ["b", "d"], "d": ["c"]}) == ["c", "d", "c"]
    assert cycle_in({"a": ["a"]}) == ["a", "a"]
    assert cycle_in({"a": ["b", "c"], "b": ["c"], "c": []}) is None


def test_only_the_dispatcher_and_the_codec_name_kinds_of_faults():
    kinds = re.compile("|".join(f'"{kind}"' for kind in KINDS if kind not in ("status", "deadline", "reset")))
    naming = {file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py") if kinds.search(file.read_text())}
    assert naming == {"hooks/faults.py", "wire/plan.py", "starting.py"}  # the last one in an example
