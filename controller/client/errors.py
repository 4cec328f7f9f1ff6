"""What can go wrong when a controller is asked. Apart from the client, so that a command line starts fast."""

from __future__ import annotations

__all__ = [
    "CannotAskError",
    "ChangedError",
    "ClientError",
    "RefusedError",
    "TokenRefusedError",
    "UnreachableError",
]


class ClientError(Exception):
    """A controller was asked in vain; the message says why, in one sentence or two."""


class CannotAskError(ClientError):
    """The controller cannot be asked, or what answers is none; the message says what to look at."""


class UnreachableError(CannotAskError):
    """Nothing answers at the address, or it is no controller."""


class TokenRefusedError(CannotAskError):
    """The controller does not take the token, or wants one."""


class RefusedError(ClientError):
    """The controller refused the request.

    Args:
        status: HTTP status.
        kind: problem type, such as ``urn:tidemark:problem:stream-not-found``.
        detail: what was wrong, as a sentence.
    """

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind

    def __reduce__(self) -> tuple[type[RefusedError], tuple[int, str, str]]:
        """Let it be pickled, as pools of processes do."""
        return type(self), (self.status, self.kind, str(self))


class ChangedError(RefusedError):
    """What was to be replaced is not what was read: somebody else changed it. Read it again and decide anew."""
