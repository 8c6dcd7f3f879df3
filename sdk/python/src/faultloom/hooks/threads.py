"""``threading`` and ``concurrent.futures``: passes the current scope on to threads and executor jobs.

A worker thread that an executor starts during a request must not keep the scope of that request. Workers therefore
start without a scope, and each submitted job brings its own. Other threads get the scope of the thread that starts
them, marked as inherited: a thread may be a worker that serves other requests later.
"""

from __future__ import annotations

import contextvars
from typing import Any, Tuple

from ..scope.current import CURRENT_SCOPE, IN_UNTRACED_REQUEST, INHERITED_SCOPE
from ..scope.unscoped import OPEN_SCOPES
from .patching import Patch


def patch_threading(patch: Patch, threading: Any) -> None:
    start = threading.Thread.start

    def start_in_context(self: Any) -> None:
        scope = CURRENT_SCOPE.get()
        if scope is not None and not scope.is_finished:
            context = contextvars.copy_context()
            context.run(INHERITED_SCOPE.set, scope)
            context.run(IN_UNTRACED_REQUEST.set, False)
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
        scope = CURRENT_SCOPE.get()
        if scope is None:
            if OPEN_SCOPES and IN_UNTRACED_REQUEST.get():
                return submit(self, contextvars.copy_context().run, fn, *args, **kwargs)
            return submit(self, fn, *args, **kwargs)
        if scope.is_finished and not OPEN_SCOPES:
            job, arguments = fn, args
        else:
            job, arguments = contextvars.copy_context().run, (fn, *args)
        token = CURRENT_SCOPE.set(None)
        try:
            return submit(self, job, *arguments, **kwargs)
        finally:
            CURRENT_SCOPE.reset(token)

    global _executor_submit
    _executor_submit = (submit_in_context, submit)
    patch.replace(module.ThreadPoolExecutor, "submit", submit_in_context)


#: the patched method and the original
_executor_submit: Tuple[Any, Any] = (None, None)


def executor_submit() -> Tuple[Any, Any]:
    """``ThreadPoolExecutor.submit``: the patched method and the original. (None, None) if it is not patched."""
    return _executor_submit
