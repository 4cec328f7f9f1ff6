"""Access control: roles, scopes and tokens.

A handler depends on ``authorize.ThePrincipal`` to know the caller; ``Principal.name`` is the author in events.
Each operation has an entry in ``roles.OPERATIONS``; one without an entry is for unscoped admins only.
"""
