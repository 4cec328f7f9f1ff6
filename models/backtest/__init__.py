"""Backtest: recorded arrivals under any policy, and the yardsticks that a policy is compared with."""
