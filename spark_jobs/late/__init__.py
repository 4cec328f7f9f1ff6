"""Late rows: kept beside the query and read again from the checkpoint's logs, or windows put out in versions.

It may use ``live``, whose future-dated rows it treats as the query does, ``core`` and ``spark``.
"""
