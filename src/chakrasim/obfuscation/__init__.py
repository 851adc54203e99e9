"""Jobs that can be shared: pseudonyms, motifs of many jobs, behaviour alone; each with its guarantee and its price."""
