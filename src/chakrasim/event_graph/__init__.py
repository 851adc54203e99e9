"""Who waits for whom, as points in time and what lies between them: replays with other durations, paths, blame."""
