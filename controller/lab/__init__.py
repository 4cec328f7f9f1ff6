"""The laboratory: traces of what arrived, what bounds admit on them, and policies replayed over them, with commands.

Nothing that runs in production imports it: the command line finds its commands by name.
"""
