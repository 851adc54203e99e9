"""Jobs learned and made: programs of roles and loops, laws of sizes and counts, dependencies by their reasons."""
