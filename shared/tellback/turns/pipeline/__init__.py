"""The pipeline of a turn: ordered systems that turn a model's response or error into what the user receives.

    … your systems … ─▶ ErrorInterpretation 57 ─▶ Preparation 58 ─▶ Guarantee 59 ─▶ Routing 60

The pipeline is pure: it calls neither Redis nor the network, and its caller passes in the transport. Requirements T-35
and T-45.
"""
