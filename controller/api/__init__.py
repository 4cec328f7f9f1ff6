"""The REST interface: one module a resource, and what they share."""
