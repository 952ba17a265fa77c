"""The measurements of the design's budgets: ratios against a peer in the same run. Ships nowhere."""
