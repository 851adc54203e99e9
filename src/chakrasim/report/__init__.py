"""What results look like: tables, timelines, pictures."""
