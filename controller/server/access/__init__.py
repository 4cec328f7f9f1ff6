"""Access: who sends a request, by a token of the store, by a proxy, or, without either, from this machine.

It uses ``base``.
"""
