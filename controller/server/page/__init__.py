"""The page: its server and, in static, its files."""
