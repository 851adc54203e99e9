"""What was measured in a recorded run, moved to the captured program of any number of ranks."""
