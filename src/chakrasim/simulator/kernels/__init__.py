"""The compiled part of the simulator: one arena of words, and functions over it that Numba compiles into one loop.

From the bottom up: ``layout`` (where things stand), ``clock`` (events), ``symmetry`` (frames and ties), ``routes``
(links of topologies), ``matching`` and ``network`` (messages), ``messages`` and ``bus`` (what the layers above ask of
them), ``custom`` and ``streams`` (collectives), ``workload`` (nodes), ``progress`` (what a completed step leads to),
``loop`` (the event loop).
"""
