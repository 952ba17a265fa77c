"""What the budgets of the design are measured with. Ratios against a peer in the same run; ships nowhere."""
