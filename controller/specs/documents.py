"""Documents that say which SLOs, joins and policies should hold, for ``tidemark apply``.

An SLO is an OpenSLO document; a policy and a join are of ``tidemark/v1``, with the fields of the REST interface beside
the names of the job and of the stream or join. What a document leaves out has its default; only ``paused`` stays as it
is, so that applying a file does not end a pause.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Literal

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from tidemark.controller.specs.read_openslo import read_slo
from tidemark.controller.specs.yaml_text import yaml_documents
from tidemark.controller.streams.names import name_problem
from tidemark.models.specs.slo import JoinSlo, Policy, Slo

OWN_VERSION = "tidemark/v1"
"""The ``apiVersion`` of policies and joins."""

Kind = Literal["SLO", "Policy", "Join"]
"""What a document is about."""

_OPENSLO = "openslo/"
_IGNORED = frozenset({"Service", "SLI", "DataSource"})
"""Kinds of OpenSLO that may stand beside an SLO; nothing follows from them here."""

_ADAPTERS: dict[Kind, TypeAdapter[Any]] = {
    "SLO": TypeAdapter(Slo),
    "Policy": TypeAdapter(Policy),
    "Join": TypeAdapter(JoinSlo),
}
_NAME_FIELD: dict[Kind, str] = {"Policy": "stream", "Join": "join"}


@dataclass(frozen=True, slots=True)
class WantedSpec:
    """A specification that should hold."""

    kind: Kind
    """What it is."""
    job: str
    """Name of the job."""
    name: str
    """Name of the stream, or of the join."""
    fields: Mapping[str, Any]
    """All fields by their names in the REST interface; of a policy without ``paused`` where the document has none."""
    where: str
    """Where it stands: the file and the number of the document."""

    @property
    def key(self) -> tuple[Kind, str, str]:
        """What it is about: there is one of each."""
        return self.kind, self.job, self.name


class DocumentsInvalidError(ValueError):
    """Some documents cannot be applied.

    Args:
        problems: one line for each mistake, with the place.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read_documents(files: Iterable[tuple[str, str]]) -> list[WantedSpec]:
    """Return what the documents in some files say, given as (name, text).

    Raises:
        DocumentsInvalidError: when anything in any file is wrong, with all that is.
    """
    found: dict[tuple[Kind, str, str], WantedSpec] = {}
    problems: list[str] = []
    for file, text in files:
        try:
            documents = yaml_documents(text)
        except ValueError as error:
            problems.append(f"{file}: {error}")
            continue
        for number, document in enumerate(documents, 1):
            where = f"{file}, document {number}"
            try:
                wanted = _read(document, where)
            except ValidationError as error:
                problems += [f"{where}: {_line(one)}" for one in error.errors(include_url=False)]
                continue
            except ValueError as error:
                problems.append(f"{where}: {error}")
                continue
            if wanted is None:
                continue
            if wanted.key in found:
                problems.append(
                    f"{where}: {wanted.kind} {wanted.job}/{wanted.name} stands in {found[wanted.key].where} too"
                )
            found.setdefault(wanted.key, wanted)
    if problems:
        raise DocumentsInvalidError(problems)
    return list(found.values())


def own_document(kind: Kind, job: str, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a policy or a join."""
    return {
        "apiVersion": OWN_VERSION,
        "kind": kind,
        "spec": {"job": job, _NAME_FIELD[kind]: name, **fields},
    }


def documents_text(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as one YAML text."""
    # Off is quoted: readers of YAML 1.1 take it for a boolean.
    return str(yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True, allow_unicode=True))


def _read(document: object, where: str) -> WantedSpec | None:
    if not isinstance(document, dict):
        raise ValueError("a document is a mapping with apiVersion and kind")  # noqa: TRY004 - one kind of error
    version, kind = str(document.get("apiVersion")), document.get("kind")
    if version.startswith(_OPENSLO):
        if kind in _IGNORED:
            return None
        if kind != "SLO":
            raise ValueError(
                f"/kind: {kind} of OpenSLO cannot be applied; SLO can, and Service and SLI may stand by"
            )
        job, name, fields = read_slo(document)
        return _wanted("SLO", job, name, fields, where, paused=False)
    if version != OWN_VERSION:
        raise ValueError(f"/apiVersion: {version} is neither openslo/v1 nor {OWN_VERSION}")
    if kind not in ("Policy", "Join"):
        raise ValueError(f"/kind: {kind} is neither Policy nor Join; an SLO is a document of openslo/v1")
    extra = sorted(document.keys() - {"apiVersion", "kind", "metadata", "spec"})
    if extra:
        raise ValueError(f"/{extra[0]}: there is no such field; those of a {kind} stand under spec")
    spec = document.get("spec")
    if not isinstance(spec, dict):
        raise ValueError("/spec: it is missing")  # noqa: TRY004 - as above
    fields = dict(spec)
    job, name = (_text(fields, field) for field in ("job", _NAME_FIELD[kind]))
    return _wanted(kind, job, name, fields, where, paused="paused" in fields)


def _text(fields: dict[Any, Any], field: str) -> str:
    found = fields.pop(field, None)
    if not isinstance(found, str):
        raise ValueError(f"/spec/{field}: give the name of the {field} as a text")  # noqa: TRY004 - as above
    return found


def _wanted(
    kind: Kind, job: str, name: str, fields: Mapping[str, Any], where: str, *, paused: bool
) -> WantedSpec:
    for one in (job, name):
        problem = name_problem(one)
        if problem is not None:
            raise ValueError(f"{one!r}: {problem}")
    # By way of JSON, as the controller reads it; what JSON has no type for becomes a text, which no number takes.
    value = _ADAPTERS[kind].validate_json(json.dumps(fields, default=str))
    whole = asdict(value)
    if kind == "Policy" and not paused:
        del whole["paused"]
    plain: dict[str, Any] = json.loads(json.dumps(whole))
    return WantedSpec(kind, job, name, plain, where)


def _line(error: ErrorDetails) -> str:
    place = "".join(f"/{part}" for part in error["loc"])
    return f"{place or 'the document'}: {error['msg'].removeprefix('Value error, ')}"


def without_defaults(kind: Kind, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a specification that differ from their defaults: a document can leave the others out."""
    return {
        name: fields[name]
        for name, default in _DEFAULTS[kind].items()
        if name in fields and fields[name] != default
    }


def default_policy() -> dict[str, Any]:
    """Return the fields of the policy of a stream for which nobody set one."""
    return dict(_DEFAULTS["Policy"])


def _defaults(specification: type[Slo | Policy | JoinSlo]) -> dict[str, Any]:
    """Return the default of each field as JSON has it; None for a field without one, which is never None."""
    return {one.name: _default(one) for one in dataclass_fields(specification)}


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else json.loads(json.dumps(field.default))


_DEFAULTS: dict[Kind, dict[str, Any]] = {
    "SLO": _defaults(Slo),
    "Policy": _defaults(Policy),
    "Join": _defaults(JoinSlo),
}
