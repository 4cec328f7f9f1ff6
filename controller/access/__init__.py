"""Who may do what: roles, scopes and tokens. Pure: no store, no clock, no HTTP.

A handler asks for ``api.dependencies.ThePrincipal`` to know who asks; ``Principal.name`` is what an event's author is.
Each operation has a line in ``roles.OPERATIONS``; one that has none is the unscoped admin's alone.
"""
