"""``chakrasim what-if``: one command, a module for each kind of input."""
