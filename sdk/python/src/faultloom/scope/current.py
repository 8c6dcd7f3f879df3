"""The scope of the running code, in a context variable.

asyncio tasks inherit it. ``hooks.threads`` passes it on to threads and executors.

A thread may work for other requests than the one that started it. Its scope is therefore marked as inherited, and so is
every call that it sends in that scope.
"""

from __future__ import annotations

import contextlib
import contextvars
from typing import TYPE_CHECKING, Iterator, Optional

from ..wire.history import TAG_INHERITED

if TYPE_CHECKING:
    from .scope import Scope

CURRENT_SCOPE: contextvars.ContextVar[Optional[Scope]] = contextvars.ContextVar("faultloom_scope", default=None)


#: the scope that this thread, or one that started it, got from the thread that started it
INHERITED_SCOPE: contextvars.ContextVar[Optional[Scope]] = contextvars.ContextVar("faultloom_inherited_scope", default=None)

#: the running code handles a request without a scope. Set only while another scope is open
IN_UNTRACED_REQUEST: contextvars.ContextVar[bool] = contextvars.ContextVar("faultloom_untraced", default=False)


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


def call_flags(scope: Scope) -> int:
    """The flags of ``Scope.begin_call`` for a call that the running code sends in this scope."""
    return TAG_INHERITED if INHERITED_SCOPE.get() is scope else 0


def is_lost() -> bool:
    """Whether a call without an open scope belongs to no request. Otherwise its request has none, or is answered."""
    scope = CURRENT_SCOPE.get()
    if scope is None:
        return not IN_UNTRACED_REQUEST.get()
    return INHERITED_SCOPE.get() is scope
