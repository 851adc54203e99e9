"""HTA's critical path, fault for fault."""
