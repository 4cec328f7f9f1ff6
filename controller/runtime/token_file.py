"""Bearer tokens that the controller sends to others, each in a file of its own."""

from __future__ import annotations

from pathlib import Path


class TokenFileError(Exception):
    """A file holds no token; the text names the file and says why, and shows nothing of what it holds."""


def bearer(file: Path | None) -> dict[str, str]:
    """Return the headers that send the token in a file, which is read anew each time; none without a file.

    Raises:
        TokenFileError: when the file cannot be read or holds no token.
    """
    if file is None:
        return {}
    try:
        token = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise TokenFileError(f"token file {file}: {error.strerror}") from None
    except ValueError:
        raise TokenFileError(f"token file {file} holds no token: it is not plain ASCII") from None
    if not token:
        raise TokenFileError(f"token file {file} is empty")
    return {"Authorization": f"Bearer {token}"}
