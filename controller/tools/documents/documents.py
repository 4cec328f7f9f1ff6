"""Documents that say which SLOs, joins and policies should hold, for ``tidemark apply``.

An SLO is an OpenSLO document; a policy and a join are of ``tidemark/v1``, with the fields of the REST interface beside
the names of the job and of the stream or join. What a document leaves out has its default; only ``paused`` stays as it
is, so that applying a file does not end a pause.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidemark.controller.base.errors import ErrorItem, InvalidBodyError
from tidemark.controller.base.read_spec import read_spec
from tidemark.controller.base.sentences import sentence
from tidemark.controller.base.syntax import yaml_problem
from tidemark.controller.tools.documents.openslo import ANNOTATED, API_VERSION, PREFIX
from tidemark.controller.tools.documents.openslo_reading import read_slo
from tidemark.models.base.names import name_problem
from tidemark.models.specs.fields import defaults_of
from tidemark.models.specs.slo import JoinSlo, Policy, Slo

OWN_VERSION = "tidemark/v1"
"""The ``apiVersion`` of policies and joins."""

Kind = Literal["SLO", "Policy", "Join"]
"""What a document is about."""

_OPENSLO = ("openslo/", "openslo.com/")
_IGNORED = frozenset(
    {"Service", "SLI", "DataSource", "AlertPolicy", "AlertCondition", "AlertNotificationTarget"}
)
"""Kinds of OpenSLO that may stand beside an SLO; nothing follows from them here."""

_TYPES: dict[Kind, type[Any]] = {"SLO": Slo, "Policy": Policy, "Join": JoinSlo}
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
    notes: tuple[str, ...] = ()
    """What is not quite as the document says, although it can be meant so."""

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
    specs: dict[tuple[Kind, str, str], WantedSpec] = {}
    problems: list[str] = []
    for file, text in files:
        try:
            documents = yaml_documents(text)
        except ValueError as error:
            problems.append(f"{file}: {error}")
            continue
        for place, document in _numbered(documents):
            where = f"{file}, {place}"
            try:
                wanted = _read(document, where)
            except ValidationError as error:
                problems += [f"{where}: {_line(one)}" for one in error.errors(include_url=False)]
                continue
            except InvalidBodyError as error:
                problems += [f"{where}: {one.pointer}: {one.detail}" for one in error.errors]
                continue
            except ValueError as error:
                problems.append(f"{where}: {error}")
                continue
            if wanted is None:
                continue
            if wanted.key in specs:
                problems.append(
                    f"{where}: {wanted.kind} {wanted.job}/{wanted.name} stands in {specs[wanted.key].where} too"
                )
            specs.setdefault(wanted.key, wanted)
    if problems:
        raise DocumentsInvalidError(problems)
    return list(specs.values())


def own_document(kind: Kind, job: str, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a policy or a join."""
    return {
        "apiVersion": OWN_VERSION,
        "kind": kind,
        "spec": {"job": job, _NAME_FIELD[kind]: name, **fields},
    }


def _numbered(documents: list[Any]) -> Iterator[tuple[str, object]]:
    """Yield each document with its number; OpenSLO's own library writes many as one list."""
    for number, document in enumerate(documents, 1):
        place = f"document {number}"
        if isinstance(document, list):
            yield from ((f"{place}, item {item}", part) for item, part in enumerate(document, 1))
        else:
            yield place, document


def _read(document: object, where: str) -> WantedSpec | None:
    if not isinstance(document, dict):
        raise ValueError("a document is a mapping with apiVersion and kind")  # noqa: TRY004 - one kind of error
    version, kind = str(document.get("apiVersion")), document.get("kind")
    if version.startswith(_OPENSLO):
        if kind in _IGNORED:
            return None
        if kind != "SLO":
            raise ValueError(f"/kind: {kind} is no kind of OpenSLO; write SLO")
        slo = read_slo(document)
        return replace(_wanted("SLO", slo.job, slo.stream, slo.fields, where, paused=False), notes=slo.notes)
    if version != OWN_VERSION:
        fault = f"{version} is not read" if "apiVersion" in document else "it is missing"
        raise ValueError(
            f"/apiVersion: {fault}; write an SLO as {API_VERSION}, a policy or a join as {OWN_VERSION}, as "
            "`tidemark export` prints them"
        )
    if kind not in ("Policy", "Join"):
        raise ValueError(
            f"/kind: {kind!r} is neither 'Policy' nor 'Join'; an SLO is a document of openslo/v1, "
            "as `tidemark export` prints it"
        )
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
    text = fields.pop(field, None)
    if not isinstance(text, str):
        raise ValueError(f"/spec/{field}: give the name of the {field} as a text")  # noqa: TRY004 - as above
    return text


def _wanted(
    kind: Kind, job: str, name: str, fields: Mapping[str, Any], where: str, *, paused: bool
) -> WantedSpec:
    for one in (job, name):
        problem = name_problem(one)
        if problem is not None:
            raise ValueError(f"{one!r}: {problem}")
    try:
        value = read_spec(_TYPES[kind], fields)
    except InvalidBodyError as error:
        raise InvalidBodyError(
            error.detail,
            errors=tuple(ErrorItem(_place(kind, one.pointer), one.detail) for one in error.errors),
        ) from None
    whole = asdict(value)
    if kind == "Policy" and not paused:
        del whole["paused"]
    plain: dict[str, Any] = json.loads(json.dumps(whole))
    return WantedSpec(kind, job, name, plain, where)


def _place(kind: Kind, pointer: str) -> str:
    """Return where in a document the field stands to which a pointer into the specification leads."""
    name = pointer.removeprefix("/")
    if kind == "SLO" and name in ANNOTATED:
        return f"/metadata/annotations/{PREFIX.replace('/', '~1')}{name}"
    return f"/spec{pointer}"


def _line(error: ErrorDetails) -> str:
    place = "".join(f"/{part}" for part in error["loc"])
    return f"{place or 'the document'}: {sentence(error)}"


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


_DEFAULTS: dict[Kind, dict[str, Any]] = {
    # As JSON has them.
    kind: json.loads(json.dumps(defaults_of(type_)))
    for kind, type_ in _TYPES.items()
}


# -- YAML in which a mistake is an error and a number is exact ---------------------------------------------------------


def yaml_documents(text: str) -> list[Any]:
    """Return the documents of a YAML or JSON text, without those that are empty.

    Unlike in YAML 1.1, ``Off`` is a text: only ``true`` and ``false`` are booleans. Decimal fractions are ``Decimal``.

    Raises:
        ValueError: when it is not YAML, nested too deeply, or a key stands twice in one mapping.
    """
    try:
        return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(yaml_problem(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class _Loader(yaml.SafeLoader):
    """A safe loader that takes no second key and only the booleans of YAML 1.2."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in keys:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
            keys.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError:
            problem = f"{node.value!r} is neither a date nor a number"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None


def _exact(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    text = loader.construct_scalar(node).replace("_", "")
    # Infinity and sexagesimal numbers stay texts, which no field takes.
    return (
        Decimal(text) if re.fullmatch(r"[-+]?[0-9]*\.?[0-9]*(e[-+]?[0-9]+)?", text, re.IGNORECASE) else text
    )


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))
_Loader.add_constructor("tag:yaml.org,2002:float", _exact)
