"""The pipeline of a turn: ordered systems that make of a model's response or error what a user receives.

    … your systems … ─▶ ErrorInterpretation 57 ─▶ Preparation 58 ─▶ Guarantee 59 ─▶ Routing 60

Pure: nothing here reads Redis or the network; a transport is passed in. Source: feedback-guarantee.
"""
