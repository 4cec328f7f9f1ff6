"""What is done about a stream: decisions, rollouts, what is published to jobs, outside gates, retention and deletion.

It uses all folders below it.
"""
