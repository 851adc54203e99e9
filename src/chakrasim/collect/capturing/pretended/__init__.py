"""The device that a captured program believes to run on."""
