"""Why a simulated job takes as long as it does: its events, its critical path over all ranks, who made whom wait."""
