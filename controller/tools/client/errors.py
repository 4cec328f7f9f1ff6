"""What can go wrong when a controller is called. Apart from the client, so that the command line starts fast."""

from __future__ import annotations


class ClientError(Exception):
    """A call failed; the message says why, in one or two sentences."""


class ControllerUnusableError(ClientError):
    """There is no answer, or none that can be used; the message says what to check."""


class UnreachableError(ControllerUnusableError):
    """Nothing answers at the address, or what answers is not a controller."""


class TokenRejectedError(ControllerUnusableError):
    """The controller does not accept the token, or requires one."""


class RequestRejectedError(ClientError):
    """The controller rejected the request.

    Args:
        kind: problem type, such as ``urn:tidemark:problem:stream-not-found``.
        detail: what was wrong, as a sentence.
        errors: what was wrong in which part of the request: JSON pointer, or parameter, and sentence.
    """

    def __init__(self, status: int, kind: str, detail: str, errors: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.errors = errors

    def __reduce__(
        self,
    ) -> tuple[type[RequestRejectedError], tuple[int, str, str, tuple[tuple[str, str], ...]]]:
        """Allow pickling, which pools of processes need."""
        return type(self), (self.status, self.kind, str(self), self.errors)

    def of_kind(self, *kinds: str) -> bool:
        """Return whether the problem type ends with one of some names, such as ``stream-not-found``."""
        return self.kind.rpartition(":")[2] in kinds


class ChangedError(RequestRejectedError):
    """Somebody else changed what was to be replaced. Read it again and decide anew."""
