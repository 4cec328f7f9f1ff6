"""``tidemark lint``: the checks of a query's start, before it starts."""
