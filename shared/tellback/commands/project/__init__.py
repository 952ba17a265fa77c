"""The templates of `tellback init-runner`: a runner that needs no Tellback at run time, and a page for agents."""
