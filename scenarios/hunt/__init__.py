"""Looking for what is wrong with a protocol: small cases are drawn, run and judged, and what fails is made smaller.

In the order of the flow: a `case` is drawn (`drawing`) or made of one that behaved in a new way (`mutating`), its
schedule is aimed at what happened before (`aiming`), it is run (`running`) and judged (`judges`), each judge by name;
`shrinking` leaves out what a finding does not need, `telling` writes it down, and `hunt` is the loop of it all.
"""
