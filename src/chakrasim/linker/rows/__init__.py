"""What is linked, as rows of one table: order, edges, and the check by replay."""
