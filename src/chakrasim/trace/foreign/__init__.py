"""Jobs as other makers' simulators write them: GOAL, SimAI's workloads, AICB's tables."""
