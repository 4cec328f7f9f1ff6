"""The process: settings and parts wired together, the loop, access, and REST with its routes, schemas and page.

It uses all folders below it.
"""
