"""Profiles of other makers' tools, read as device traces: those of Nsight Systems, rocprofv3 and rocprof."""
