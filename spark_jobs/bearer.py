"""The bearer token of a job: from a file or the environment, never from Spark's conf, which Spark shows to everybody.

Both are read before each request, so that a token can be rotated while the job runs.
"""

from __future__ import annotations

import os
from pathlib import Path

TOKEN_FILE_KEY = "spark.tidemark.token.file"  # noqa: S105 - the name of a key
"""Conf key that names the file."""

TOKEN_VARIABLE = "TIDEMARK_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the token where no file is named."""


class TokenUnreadable(Exception):
    """There should be a token and there is none that could be sent; the message never shows it."""


class BearerToken:
    """Where a job's token comes from.

    Args:
        file: file that holds it; None: the environment variable ``TIDEMARK_TOKEN``, if it is set.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    @property
    def origin(self) -> str | None:
        """Where the token comes from, for messages; None when the job has none."""
        if self._file is not None:
            return f"token file {self._file}"
        return f"environment variable {TOKEN_VARIABLE}" if os.environ.get(TOKEN_VARIABLE) else None

    def read(self) -> str | None:
        """Return the token as it stands now; None when the job has none.

        Raises:
            TokenUnreadable: when the file cannot be read, or what it holds is no token.
        """
        if self._file is None:
            text = os.environ.get(TOKEN_VARIABLE, "")
        else:
            try:
                text = self._file.read_text(encoding="ascii")
            except OSError as error:
                raise TokenUnreadable(f"{self.origin}: {error.strerror}") from None
            except ValueError:
                # The error would quote what the file holds.
                raise TokenUnreadable(f"{self.origin} holds no token: it is not plain ASCII") from None
        token = text.strip()
        if not token:
            if self._file is None:
                return None
            raise TokenUnreadable(f"{self.origin} is empty")
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise TokenUnreadable(f"{self.origin} holds no token: there are spaces or odd characters in it")
        return token
