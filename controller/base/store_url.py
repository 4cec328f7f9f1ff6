"""The database's URL: as people write it, and as they may see it."""

from __future__ import annotations

import re

from sqlalchemy import URL, make_url

_SECRET = ("password", "passwd", "secret", "token")
"""Parts of the names of query parameters whose values are secrets."""

_SEVERAL = re.compile(r"(postgres[^:]*://(?:[^/?@]*@)?)([^/?@]*,[^/?@]*)(/[^?]*)?\??(.*)", re.DOTALL)
"""A URL of PostgreSQL that names several hosts in the place of one: what comes before them, they, and what follows."""


def url_of(text: str) -> URL:
    """Return the URL that a text says, with our driver of PostgreSQL where it names none, as other programs write it.

    Raises:
        sqlalchemy.exc.ArgumentError: when it is none.
    """
    if several := _SEVERAL.fullmatch(text):
        start, addresses, path, query = several.groups("")
        hosts = re.findall(r"(?:^|,)(?:\[([^]]*)\]|([^:,]*)):?([^,]*)", addresses)
        names, ports = (
            ",".join(part) for part in zip(*((a or b, port) for a, b, port in hosts), strict=True)
        )
        text = f"{start}{path or '/'}?host={names}&port={ports}&{query}"
    url = make_url(text)
    return url.set(drivername="postgresql+psycopg") if url.drivername in {"postgres", "postgresql"} else url


def shown_url(url: URL) -> str:
    """Return a URL with its passwords masked: drivers take them in the query too."""
    secrets = {name: "***" for name in url.query if any(part in name.lower() for part in _SECRET)}
    shown = url.update_query_dict(secrets).render_as_string(hide_password=True)
    return shown.replace("%2A%2A%2A", "***")
