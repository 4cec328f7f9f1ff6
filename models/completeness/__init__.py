"""How complete a window of event time is and will be: from arrivals by age, with an interval that is scored.

It uses ``base`` and ``evidence``.
"""
