"""Programs captured without their machine: every rank of a job, on a pretended device."""
