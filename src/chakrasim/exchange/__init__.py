"""Jobs written as other makers' simulators read them: GOAL and SimAI's workloads."""
