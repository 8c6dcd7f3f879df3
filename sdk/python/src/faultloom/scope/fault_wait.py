"""The wait of a delay or a hang. It ends early when faults are switched off."""

from __future__ import annotations

import time
from typing import Any, Callable

from ..trust.settings import CHECK_SECONDS
from .scope import Scope


def wait_for_fault(scope: Scope, seconds: float, sleep: Callable[[float], Any] = time.sleep) -> bool:
    """Blocks for ``seconds``. False: faults were switched off before that.

    ``sleep`` may raise to end the wait: its exception passes through.
    """
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if left <= 0 or not scope.faults_enabled():
            return left <= 0
        sleep(min(left, CHECK_SECONDS))


async def wait_for_fault_async(scope: Scope, seconds: float, sleep: Callable[[float], Any]) -> bool:
    """Like ``wait_for_fault``; ``sleep`` is the event loop's."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if left <= 0 or not scope.faults_enabled():
            return left <= 0
        await sleep(min(left, CHECK_SECONDS))
