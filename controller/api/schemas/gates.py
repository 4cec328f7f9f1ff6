"""The outside gates that policies can name."""

from __future__ import annotations

from typing import Literal

from tidemark.controller.api.schemas.answer import Answer


class GateOffered(Answer):
    """An outside gate that the controller's operators have set up."""

    name: str
    """Its name, which a policy gives in `gates`."""
    kind: Literal["webhook", "prometheus"]
    """Whether a webhook is asked or a query of Prometheus."""
    asks: str
    """What it is asked, in words."""


class GateList(Answer):
    """All outside gates."""

    gates: list[GateOffered]
    """The gates, in the order of the operators' file."""
