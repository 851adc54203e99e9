"""Which one: many splits and machines, by arithmetic and by simulation."""
