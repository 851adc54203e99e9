"""Reference tools, fault for fault: a service to people who come from them. Imported by the command line alone."""
