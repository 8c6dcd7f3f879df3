"""The errors of the message layer.

One class: callers distinguish errors by the codes of ``spec/errors.json``, which are stable and shared by all SDKs.
"""

from __future__ import annotations


class FaultloomError(ValueError):
    """Bytes or settings that do not follow the format, or a refused envelope.

    ``code`` is one of the codes in ``spec/errors.json``. The hooks never let this reach an application.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code


def malformed(detail: str = "") -> FaultloomError:
    return FaultloomError("malformed", detail)
