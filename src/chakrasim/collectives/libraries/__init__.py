"""What communication libraries choose: the algorithm, protocol and channels of NCCL and RCCL, as pure functions."""
