"""The base of all answers, by the name that the schemas use."""

from tidemark.controller.runtime.answer import Answer

__all__ = ["Answer"]
