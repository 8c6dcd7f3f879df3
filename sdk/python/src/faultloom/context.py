"""The scope of the running code: a context variable, carried into threads and executors.

asyncio tasks copy the context by themselves; ``threading.Thread`` and ``ThreadPoolExecutor`` do not and are patched.
A worker thread that an executor starts on behalf of one request must not keep that request's scope, so workers start
without one and each submitted job brings its own.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, Optional, Tuple

if TYPE_CHECKING:
    from .hooks.patching import Patch
    from .scope import Scope

CURRENT: contextvars.ContextVar[Optional[Scope]] = contextvars.ContextVar("faultloom_scope", default=None)


def current() -> Optional[Scope]:
    """The scope to send in, or None: outside any, or in one that has answered already."""
    scope = CURRENT.get()
    return None if scope is None or scope.over else scope


def patch_threading(patch: Patch, threading: Any) -> None:
    start = threading.Thread.start

    def start_in_context(self: Any) -> None:
        if current() is not None:
            context = contextvars.copy_context()
            run = self.run

            def run_in_context() -> None:
                self.__dict__.pop("run", None)
                context.run(run)

            self.run = run_in_context
        start(self)

    patch.replace(threading.Thread, "start", start_in_context)


def patch_executor(patch: Patch, module: Any) -> None:
    submit = module.ThreadPoolExecutor.submit

    def submit_in_context(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        scope = CURRENT.get()
        if scope is None:
            return submit(self, fn, *args, **kwargs)
        if scope.over:
            job, arguments = fn, args
        else:
            job, arguments = contextvars.copy_context().run, (fn, *args)
        token = CURRENT.set(None)
        try:
            return submit(self, job, *arguments, **kwargs)
        finally:
            CURRENT.reset(token)

    global _executor_submit
    _executor_submit = (submit_in_context, submit)
    patch.replace(module.ThreadPoolExecutor, "submit", submit_in_context)


#: ours and the interpreter's own
_executor_submit: Tuple[Any, Any] = (None, None)


def executor_submit() -> Tuple[Any, Any]:
    """``ThreadPoolExecutor.submit`` as it is patched, and as it was; nothing twice if it is not patched."""
    return _executor_submit
