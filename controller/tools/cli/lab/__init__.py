"""The laboratory: commands over traces, each imported when it runs."""
