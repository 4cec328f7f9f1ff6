"""Backtest: recorded arrivals under any policy, and the yardsticks beside which a policy is judged."""
