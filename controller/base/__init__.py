"""What every part uses: errors, settings, the clock, logs, who acts, and the store with its tables and leases.

It uses nothing of the controller.
"""
