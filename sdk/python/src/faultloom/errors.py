"""The errors of the message layer.

One class: the codes of ``spec/errors.json`` are what callers tell apart. They are stable and shared by every SDK.
"""

from __future__ import annotations


class FaultloomError(ValueError):
    """Bytes or settings that do not follow the format, or an envelope that is refused.

    ``code`` is one of the codes in ``spec/errors.json``. Nothing in the hooks lets this reach an application.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code


def malformed(detail: str = "") -> FaultloomError:
    return FaultloomError("malformed", detail)
