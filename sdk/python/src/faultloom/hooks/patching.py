"""Post-import hooks, and patches that are applied completely or not at all.

A finder at the front of ``sys.meta_path`` delegates to the ordinary finders, and applies our patch after the module
has been executed. A patch that fails is undone and prints one line; the application continues with the unpatched
library.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import threading
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..log import warn

_MISSING = object()


class Unsupported(Exception):
    """A version that the patch does not support. The text names it."""


class Patch:
    """Attributes replaced so far, so that a patch that fails halfway can be undone."""

    def __init__(self) -> None:
        self._undo: List[Tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        old = vars(owner).get(name, _MISSING)
        if callable(value) and callable(getattr(owner, name, None)):
            original = getattr(owner, name)
            for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
                try:
                    setattr(value, attribute, getattr(original, attribute))
                except (AttributeError, TypeError):
                    pass
        setattr(owner, name, value)
        self._undo.append((owner, name, old))

    def undo(self) -> None:
        while self._undo:
            owner, name, old = self._undo.pop()
            if old is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, old)


PatchFunction = Callable[[Patch, ModuleType], None]


def require(name: str, version: str, lowest: str, below: str) -> None:
    """Raises Unsupported unless ``lowest`` <= ``version`` < ``below``."""

    def numbers(text: str) -> List[int]:
        return [int(part) for part in re.findall(r"\d+", text)[:3]]

    if not numbers(lowest) <= numbers(version) < numbers(below):
        raise Unsupported(f"{name} {version} is not supported (supported: {lowest} up to, but not including, {below})")


def apply(title: str, function: PatchFunction, module: ModuleType) -> bool:
    """Applies one patch. False: it failed and was undone, with one line on standard error."""
    patch = Patch()
    try:
        function(patch, module)
        return True
    except Unsupported as error:
        reason = str(error)
    except Exception as error:
        reason = f"{title} could not be patched ({type(error).__name__}: {error})"
    patch.undo()
    warn(f"{reason}; it is left as it is, its messages are not traced")
    return False


class _Loader(importlib.abc.Loader):
    """Stands in for a module's own loader until the module has been executed."""

    def __init__(self, inner: Any, done: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._done = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        created: Optional[ModuleType] = self._inner.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        try:
            module.__loader__ = self._inner
        except AttributeError:
            pass
        self._inner.exec_module(module)
        self._done(module)


class Finder(importlib.abc.MetaPathFinder):
    """Runs the registered patches of a module right after it was imported."""

    def __init__(self) -> None:
        self._patches: Dict[str, List[Tuple[str, PatchFunction]]] = {}
        self._busy = threading.local()

    def when_imported(self, name: str, title: str, function: PatchFunction) -> None:
        """Runs ``function`` when module ``name`` is imported, or now if it is imported already."""
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            apply(title, function, module)
            return
        self._patches.setdefault(name, []).append((title, function))

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in self._patches or getattr(self._busy, "name", None) == fullname:
            return None
        outer, self._busy.name = getattr(self._busy, "name", None), fullname
        try:
            spec: Optional[importlib.machinery.ModuleSpec] = None
            for finder in list(sys.meta_path):
                if finder is not self and hasattr(finder, "find_spec"):
                    spec = finder.find_spec(fullname, path, target)
                    if spec is not None:
                        break
        finally:
            self._busy.name = outer
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _Loader(spec.loader, self._imported)
        return spec

    def _imported(self, module: ModuleType) -> None:
        for title, function in self._patches.pop(module.__name__, []):
            apply(title, function, module)


FINDER = Finder()


def install_finder() -> None:
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
