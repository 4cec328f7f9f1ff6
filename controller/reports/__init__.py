"""What jobs send: reports are checked and stored, each once, and listed.

It uses ``base`` and ``specs``.
"""
