"""A package, so that the fixture of its scope, the browser, ends with its last test."""
