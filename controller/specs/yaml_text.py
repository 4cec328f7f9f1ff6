"""Reads YAML in which a mistake is an error and a number is exact."""

from __future__ import annotations

import re
from collections.abc import Hashable
from decimal import Decimal
from typing import Any

import yaml


def yaml_documents(text: str) -> list[Any]:
    """Return the documents of a YAML or JSON text, without those that are empty.

    Unlike in YAML 1.1, ``Off`` is a text: only ``true`` and ``false`` are booleans. Decimal fractions are ``Decimal``.

    Raises:
        ValueError: when it is not YAML, nested too deeply, or a key stands twice in one mapping.
    """
    try:
        return [found for found in yaml.load_all(text, Loader=_Loader) if found is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"{where}{error.problem or 'this is not YAML'}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except yaml.YAMLError as error:
        raise ValueError(f"this is not YAML: {' '.join(str(error).split())}") from None


class _Loader(yaml.SafeLoader):
    """A safe loader that takes no second key and only the booleans of YAML 1.2."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        found: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in found:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
            found.add(key.value)
        return super().construct_mapping(node, deep)


def _exact(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    text = loader.construct_scalar(node).replace("_", "")
    # Infinity and sexagesimal numbers stay texts, which no field takes.
    return (
        Decimal(text) if re.fullmatch(r"[-+]?[0-9]*\.?[0-9]*(e[-+]?[0-9]+)?", text, re.IGNORECASE) else text
    )


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != _BOOL]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))
_Loader.add_constructor("tag:yaml.org,2002:float", _exact)
