"""HTA's analyses, fault for fault."""
