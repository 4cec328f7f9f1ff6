"""The running process: its parts wired together, and the decision loop.

It uses ``access`` and all layers below ``server``.
"""
