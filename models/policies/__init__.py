"""Policies: what decides a bound or a watermark from what arrived, and nothing else. Causal and pure."""
