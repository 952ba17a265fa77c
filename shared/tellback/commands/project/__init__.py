"""What `tellback init-runner` writes into a project: a runner that needs nothing of Tellback, and a page for agents."""
