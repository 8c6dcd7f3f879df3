"""Installs every hook, once. ``faultloom.auto`` and the launcher's ``sitecustomize`` end up here.

A process without trust settings that could never get any is left alone altogether: no hook, no cost. One that starts
requests itself (``Signer``) has its hooks all the same.
"""

from __future__ import annotations

import importlib
import platform
from types import ModuleType
from typing import NamedTuple

from .hooks.patching import FINDER, Patch, PatchFunction, Unsupported, install_finder, require
from .runtime import runtime
from .status import STATUS

class _Hook(NamedTuple):
    """One patch: the module it waits for, what messages call it, where our function is, and the versions it knows."""

    module: str
    title: str
    ours: str
    function: str = "patch"
    version: str = ""  # "module:attribute", or the name of a distribution
    lowest: str = ""
    below: str = ""


_GRPC = ("grpc._grpcio_metadata:__version__", "1.60", "2")

_HOOKS = (
    _Hook("threading", "threading", "faultloom.context", "patch_threading"),
    _Hook("concurrent.futures.thread", "concurrent.futures", "faultloom.context", "patch_executor"),
    _Hook("http.client", "http.client", "faultloom.hooks.http_client"),
    _Hook("flask.app", "Flask", "faultloom.hooks.flask", "patch", "flask", "2.2", "4"),
    _Hook("httpx", "httpx", "faultloom.hooks.httpx", "patch", "httpx:__version__", "0.24", "1"),
    _Hook("grpc._channel", "grpcio", "faultloom.hooks.grpc_client", "patch", *_GRPC),
    _Hook("grpc._server", "grpcio", "faultloom.hooks.grpc_server", "patch", *_GRPC),
    _Hook("grpc.aio._channel", "grpc.aio", "faultloom.hooks.grpc_aio_client", "patch", *_GRPC),
    _Hook("grpc.aio._server", "grpc.aio", "faultloom.hooks.grpc_aio_server", "patch", *_GRPC),
)

#: what carries the context is no library whose messages are seen
_UNNAMED = ("threading", "concurrent.futures")

_installed = _hooked = False


def _version(where: str) -> str:
    module, colon, attribute = where.partition(":")
    if colon:
        return str(getattr(importlib.import_module(module), attribute))
    from importlib.metadata import version

    return version(where)


def _later(hook: _Hook) -> PatchFunction:
    # our hook modules are imported only when the library is: an application without gRPC pays nothing for it
    def run(patch: Patch, module: ModuleType) -> None:
        version = platform.python_version()
        reason = "it could not be patched"
        try:
            if hook.version:
                version = _version(hook.version)
                require(hook.title, version, hook.lowest, hook.below)
            getattr(importlib.import_module(hook.ours), hook.function)(patch, module)
            reason = ""
        except Unsupported as error:
            reason = str(error)
            raise
        finally:
            if hook.title not in _UNNAMED:
                STATUS.library(hook.title, version, reason)

    return run


def install() -> None:
    """Hooks the process if there are trust settings, or there may be. Idempotent."""
    global _installed
    if _installed:
        return
    _installed = True
    trust = runtime().trust
    if trust.current is not None or trust.may_change:
        hook()
    STATUS.write()


def hook() -> None:
    """Patches what is imported already and everything else when it is imported. Idempotent; never raises."""
    global _hooked
    if _hooked:
        return
    _hooked = True
    install_finder()
    for hook in _HOOKS:
        FINDER.when_imported(hook.module, hook.title, _later(hook))
