"""What can be seen of a network of packets while it runs, and how long a flow would take alone."""
