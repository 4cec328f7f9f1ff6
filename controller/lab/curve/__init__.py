"""Curves: what each bound of a trace or of a stream admits and costs."""
