"""Installs all hooks, once. ``faultloom.auto`` and the launcher's ``sitecustomize`` call ``install``.

A process without trust settings that can never get any is not hooked at all: no cost. One that starts requests itself
(``faultloom.Signer``) is hooked in any case.
"""

from __future__ import annotations

import importlib
import os
import platform
from types import ModuleType
from typing import Any, Dict, NamedTuple

from ..entry.status import StatusFile
from ..version import __version__
from .patching import FINDER, Patch, PatchFunction, Unsupported, install_finder, require
from .process import this_process


class _Hook(NamedTuple):
    """One patch: the module to patch, its name in messages, our module and function, and the supported versions."""

    module: str
    title: str
    hook_module: str
    function: str = "patch"
    version: str = ""  # "module:attribute", or the name of a distribution
    lowest: str = ""
    below: str = ""


_AIOHTTP = ("aiohttp:__version__", "3.8", "4")
_GRPC = ("grpc._grpcio_metadata:__version__", "1.60", "2")

_HOOKS = (
    _Hook("threading", "threading", "faultloom.hooks.threads", "patch_threading"),
    _Hook("concurrent.futures.thread", "concurrent.futures", "faultloom.hooks.threads", "patch_executor"),
    _Hook("http.client", "http.client", "faultloom.hooks.http.client"),
    _Hook("http.server", "http.server", "faultloom.hooks.http.http_server"),
    _Hook("urllib3.connectionpool", "urllib3", "faultloom.hooks.http.client", "patch_urllib3"),
    _Hook("flask.app", "Flask", "faultloom.hooks.http.flask", "patch", "flask", "2.2", "4"),
    _Hook("django.core.handlers.wsgi", "Django", "faultloom.hooks.http.django", "patch", "django", "3.2", "7"),
    _Hook("django.core.handlers.asgi", "Django", "faultloom.hooks.http.django", "patch_asgi", "django", "3.2", "7"),
    _Hook("starlette.applications", "Starlette", "faultloom.hooks.http.starlette", "patch", "starlette", "0.27", "2"),
    _Hook("httpx", "httpx", "faultloom.hooks.http.httpx", "patch", "httpx:__version__", "0.24", "1"),
    _Hook("aiohttp.client", "aiohttp", "faultloom.hooks.http.aiohttp_client", "patch", *_AIOHTTP),
    _Hook("aiohttp.web_protocol", "aiohttp.web", "faultloom.hooks.http.aiohttp_server", "patch", *_AIOHTTP),
    _Hook("grpc._channel", "grpcio", "faultloom.hooks.grpc.client", "patch", *_GRPC),
    _Hook("grpc._server", "grpcio", "faultloom.hooks.grpc.server", "patch", *_GRPC),
    _Hook("grpc.aio._channel", "grpc.aio", "faultloom.hooks.grpc.aio_client", "patch", *_GRPC),
    _Hook("grpc.aio._server", "grpc.aio", "faultloom.hooks.grpc.aio_server", "patch", *_GRPC),
)

#: these pass the scope on and send no messages, or send them by http.client: not listed in the status file
_UNLISTED = ("threading", "concurrent.futures", "urllib3")

_is_installed = _is_hooked = False


def _describe() -> Dict[str, Any]:
    process = this_process()
    return {"service": process.service, "version": __version__, "trust": process.trust.state()}


STATUS = StatusFile(os.environ.get("FAULTLOOM_STATUS", ""), _describe)


def _installed_version(source: str) -> str:
    module, colon, attribute = source.partition(":")
    if colon:
        return str(getattr(importlib.import_module(module), attribute))
    from importlib.metadata import version

    return version(source)


def _patch_function(hook: _Hook) -> PatchFunction:
    # our module is imported only when the library is: an application without gRPC does not pay for that hook
    def patch(patch: Patch, module: ModuleType) -> None:
        version = platform.python_version()
        reason = "it could not be patched"
        try:
            if hook.version:
                version = _installed_version(hook.version)
                require(hook.title, version, hook.lowest, hook.below)
            getattr(importlib.import_module(hook.hook_module), hook.function)(patch, module)
            reason = ""
        except Unsupported as error:
            reason = str(error)
            raise
        finally:
            if hook.title not in _UNLISTED:
                if reason:
                    STATUS.refused(hook.title, version, reason)
                else:
                    STATUS.hooked(hook.title, version)

    return patch


def install() -> None:
    """Hooks the process if it has trust settings or may get some. Idempotent."""
    global _is_installed
    if _is_installed:
        return
    _is_installed = True
    trust = this_process().trust
    if trust.current is not None or trust.may_change:
        install_hooks()
    STATUS.write()


def install_hooks() -> None:
    """Patches the libraries that are imported already, and others when they are imported. Idempotent; never raises."""
    global _is_hooked
    if _is_hooked:
        return
    _is_hooked = True
    install_finder()
    for hook in _HOOKS:
        FINDER.when_imported(hook.module, hook.title, _patch_function(hook))
