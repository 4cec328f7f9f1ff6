"""Signing in at an issuer that a controller trusts, by the device flow (RFC 8628); and the token that comes of it.

A person opens an address in any browser and confirms a code there; this machine needs none, and no password is typed
here. The token is kept in a file of this user's alone, one for each controller, and is renewed when it has expired. It
is sent to that controller only.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.controller.base.clock import system_clock
from tidemark.controller.base.fetch import NoAnswer, fetch, is_safe_address
from tidemark.controller.tools.client.errors import ControllerUnusableError
from tidemark.models.base.read_json import read_object

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.service import SignInIssuer

_FETCH_SECONDS = 20.0
_EARLY_US = 30_000_000
"""How long before its end a token is renewed, in microseconds."""

_POLL_SECONDS = 5.0
"""Pause between two questions whether the code was confirmed, unless the issuer says another; RFC 8628, 3.2, 3.5."""

_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


class SignInError(ControllerUnusableError):
    """Nobody could be signed in; the text says why."""


@dataclass(frozen=True, slots=True)
class Code:
    """What a person confirms."""

    address: str
    """Where."""
    code: str
    """The code, which the page at that address shows or asks for."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a file holds."""

    client_id: str
    token_url: str
    access_token: str
    expires_us: int
    refresh_token: str | None
    revocation_url: str | None = None

    @property
    def is_fresh(self) -> bool:
        return self.expires_us - _EARLY_US > system_clock()


def sign_in(url: str, at: SignInIssuer, show: Callable[[Code], None]) -> None:
    """Sign a person in, and keep the token for the controller at ``url``.

    Args:
        at: the issuer, as that controller names it.
        show: shows the code that the person has to confirm.

    Raises:
        SignInError: when the issuer cannot be used or refuses, or nobody confirms the code in time.
    """
    document = _asked("GET", at.issuer.rstrip("/") + "/.well-known/openid-configuration")
    names = ("device_authorization", "token", "revocation")
    device_url, token_url, revocation_url = (document.get(f"{name}_endpoint") for name in names)
    if (
        document.get("issuer") != at.issuer
        or not isinstance(device_url, str)
        or not isinstance(token_url, str)
    ):
        raise SignInError(
            f"{at.issuer} offers no device flow (RFC 8628); is it enabled for {at.client_id!r}?"
        )
    given = _asked("POST", device_url, {"client_id": at.client_id, "scope": at.scope})
    try:
        plain_address, code = str(given["verification_uri"]), Code("", str(given["user_code"]))
        poll_s, left_s = float(given.get("interval", _POLL_SECONDS)), float(given["expires_in"])
        form = {"grant_type": _DEVICE, "client_id": at.client_id, "device_code": str(given["device_code"])}
    except (KeyError, TypeError, ValueError):
        raise SignInError(_refusal(at.issuer, given)) from None
    show(Code(str(given.get("verification_uri_complete") or plain_address), code.code))
    while left_s > 0:
        time.sleep(poll_s)
        left_s -= poll_s
        answer = _asked("POST", token_url, form)
        if "access_token" in answer:
            return _keep(url, _kept(answer, at.client_id, token_url, None, revocation_url))
        if answer.get("error") == "slow_down":
            poll_s += _POLL_SECONDS
        elif answer.get("error") != "authorization_pending":
            raise SignInError(_refusal(at.issuer, answer))
    raise SignInError("nobody confirmed the code in time")


def sign_out(url: str) -> str | None:
    """Forget the token for a controller, and end it at its issuer (RFC 7009).

    Returns: why its issuer has not ended it, empty where it has; None where nobody was signed in.
    """
    with _alone(url) as file:
        kept = _read(url)
        file.unlink(missing_ok=True)
    return None if kept is None else _revoke(kept)


def _revoke(kept: _Kept) -> str:
    if kept.revocation_url is None or not is_safe_address(kept.revocation_url):
        return "it cannot be asked to"
    form = {"client_id": kept.client_id, "token": kept.refresh_token or kept.access_token}
    try:
        answer = fetch("POST", kept.revocation_url, _FETCH_SECONDS, data=form)
    except NoAnswer as error:
        return str(error)
    return "" if answer.is_success else f"it answers {answer.status_code}"


def token_for(url: str) -> str:
    """Return the token for a controller, renewed if it has expired; empty where nobody has signed in.

    Raises:
        SignInError: when it cannot be renewed.
    """
    kept = _read(url)
    if kept is None or kept.is_fresh:
        return "" if kept is None else kept.access_token
    with _alone(url) as file:
        # Another command may have renewed it meanwhile.
        kept = _read(url) or kept
        if kept.is_fresh:
            return kept.access_token
        form = {"grant_type": "refresh_token", "client_id": kept.client_id}
        token = kept.refresh_token
        answer = _asked("POST", kept.token_url, {**form, "refresh_token": token}) if token else {}
        if "access_token" not in answer:
            raise SignInError(f"you are signed in no longer; run: tidemark login --url {url}")
        # Issuers may give another token for the next renewal; then the one that was used is worth nothing.
        renewed = _kept(answer, kept.client_id, kept.token_url, token, kept.revocation_url)
        _write(file, renewed)
        return renewed.access_token


def _kept(
    answer: Mapping[str, Any],
    client_id: str,
    token_url: str,
    refresh_token: str | None,
    revocation_url: str | None,
) -> _Kept:
    lifetime_s = answer.get("expires_in")
    return _Kept(
        client_id,
        token_url,
        str(answer["access_token"]),
        system_clock() + (round(lifetime_s * 1e6) if isinstance(lifetime_s, int | float) else 0),
        answer.get("refresh_token", refresh_token),
        revocation_url,
    )


def _refusal(issuer: str, answer: Mapping[str, Any]) -> str:
    reason = answer.get("error_description") or answer.get("error") or "it does not answer as RFC 8628 says"
    return f"{issuer} lets nobody in: {reason}"


def _asked(method: str, url: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what an issuer answers, refusals too."""
    if not is_safe_address(url):
        raise SignInError(f"{url} is not https: whoever is on the way could read your token")
    try:
        answer = fetch(method, url, _FETCH_SECONDS, data=form).json()
    except NoAnswer as error:
        raise SignInError(f"{url}: {error}") from None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise SignInError(f"{url} answers no JSON object")
    return answer


# -- the file --------------------------------------------------------------------------------------------------------


def _file(url: str) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "tidemark" / "sign-ins" / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.json"


def _read(url: str) -> _Kept | None:
    try:
        return read_object(_Kept, json.loads(_file(url).read_text(encoding="utf-8")))
    except (OSError, RuntimeError, ValueError):
        # Also where this user has no home, or another release wrote it.
        return None


@contextmanager
def _alone(url: str) -> Iterator[Path]:
    """Hold off other commands, which would renew the same token, and give the file."""
    file = _file(url)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield file


def _keep(url: str, kept: _Kept) -> None:
    with _alone(url) as file:
        _write(file, kept)


def _write(file: Path, kept: _Kept) -> None:
    # It is this user's alone from the start: mkstemp makes it with the mode 0600.
    number, name = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(number, "w", encoding="utf-8") as written:
        json.dump(asdict(kept), written)
    Path(name).replace(file)
