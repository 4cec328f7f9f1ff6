"""What jobs send: reports are checked, put into quarantine or stored, each once, and listed.

It uses ``base`` and ``specs``.
"""
