"""The scope of the running code, in a context variable.

asyncio tasks inherit it. ``hooks.threads`` passes it on to threads and executors.
"""

from __future__ import annotations

import contextlib
import contextvars
from typing import TYPE_CHECKING, Iterator, Optional

if TYPE_CHECKING:
    from .scope import Scope

CURRENT_SCOPE: contextvars.ContextVar[Optional[Scope]] = contextvars.ContextVar("faultloom_scope", default=None)


def current_scope() -> Optional[Scope]:
    """The scope for calls sent now. None outside any scope, and in one that has finished."""
    scope = CURRENT_SCOPE.get()
    return None if scope is None or scope.is_finished else scope


@contextlib.contextmanager
def with_scope(scope: Optional[Scope]) -> Iterator[None]:
    """Runs the block in this scope."""
    token = CURRENT_SCOPE.set(scope)
    try:
        yield
    finally:
        CURRENT_SCOPE.reset(token)
