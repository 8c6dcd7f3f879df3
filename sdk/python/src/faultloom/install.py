"""Installs every hook, once. ``faultloom.auto`` and the launcher's ``sitecustomize`` end up here."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NamedTuple

from .hooks.patching import FINDER, Patch, PatchFunction, install_finder, require

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
    _Hook("grpc.aio._channel", "grpcio", "faultloom.hooks.grpc_aio_client", "patch", *_GRPC),
    _Hook("grpc.aio._server", "grpcio", "faultloom.hooks.grpc_aio_server", "patch", *_GRPC),
)

_installed = False


def _version(where: str) -> str:
    module, colon, attribute = where.partition(":")
    if colon:
        return str(getattr(importlib.import_module(module), attribute))
    from importlib.metadata import version

    return version(where)


def _later(hook: _Hook) -> PatchFunction:
    # our hook modules are imported only when the library is: an application without gRPC pays nothing for it
    def run(patch: Patch, module: ModuleType) -> None:
        if hook.version:
            require(hook.title, _version(hook.version), hook.lowest, hook.below)
        getattr(importlib.import_module(hook.ours), hook.function)(patch, module)

    return run


def install() -> None:
    """Patches what is imported already and everything else when it is imported. Idempotent; never raises."""
    global _installed
    if _installed:
        return
    _installed = True
    install_finder()
    for hook in _HOOKS:
        FINDER.when_imported(hook.module, hook.title, _later(hook))
