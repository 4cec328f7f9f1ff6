"""The tap, reports and the bound: what every stream has, from its rows to the controller and back.

It may use ``spark``. Live, late rows and checks of plans take part through ``binding.Extension``, and it knows none.
"""
