"""Installs every hook, once. ``faultloom.auto`` and the launcher's ``sitecustomize`` end up here."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Tuple

from .hooks.patching import FINDER, Patch, PatchFunction, install_finder

# module that is patched, what it is called in messages, our module and its function
_HOOKS: Tuple[Tuple[str, str, str, str], ...] = (
    ("threading", "threading", "faultloom.context", "patch_threading"),
    ("concurrent.futures.thread", "concurrent.futures", "faultloom.context", "patch_executor"),
    ("http.client", "http.client", "faultloom.hooks.http_client", "patch"),
    ("flask.app", "Flask", "faultloom.hooks.flask", "patch"),
    ("httpx", "httpx", "faultloom.hooks.httpx", "patch"),
    ("grpc._channel", "grpcio client", "faultloom.hooks.grpc_client", "patch"),
    ("grpc._server", "grpcio server", "faultloom.hooks.grpc_server", "patch"),
    ("grpc.aio._channel", "grpc.aio client", "faultloom.hooks.grpc_aio_client", "patch"),
    ("grpc.aio._server", "grpc.aio server", "faultloom.hooks.grpc_aio_server", "patch"),
)

_installed = False


def _later(module_name: str, function_name: str) -> PatchFunction:
    # our hook modules are imported only when the library is: an application without gRPC pays nothing for it
    def run(patch: Patch, module: ModuleType) -> None:
        getattr(importlib.import_module(module_name), function_name)(patch, module)

    return run


def install() -> None:
    """Patches what is imported already and everything else when it is imported. Idempotent; never raises."""
    global _installed
    if _installed:
        return
    _installed = True
    install_finder()
    for name, title, module_name, function_name in _HOOKS:
        FINDER.when_imported(name, title, _later(module_name, function_name))
