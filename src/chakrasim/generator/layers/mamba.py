"""A state space instead of attention: Mamba-2 (Dao and Gu 2024, arXiv:2405.21060), forward and backward.

The scan over tokens goes in chunks, as section 6 there has it: within a chunk products of matrices, from chunk to chunk
a sum of states. Kernels are those of the paper's own implementation, which computes products of inputs and outputs of
states and the states themselves once more in the backward pass. Tensor ranks split heads and groups.
"""

from __future__ import annotations

from math import prod

from chakrasim.generator.layers.part import Part
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import Op, Tape
from chakrasim.generator.spec.spec import Hybrid
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind


class StateSpaceSizes:
    """Of a state space on one rank, in elements of a token unless a name says otherwise."""

    def __init__(self, sizes: Sizes, hybrid: Hybrid) -> None:
        self.heads, self.groups = hybrid.heads // sizes.tp, hybrid.groups // sizes.tp
        """How many."""
        self.inner, self.convolved = hybrid.inner // sizes.tp, hybrid.convolved // sizes.tp
        self.entered = self.inner + self.convolved + self.heads
        """What the first matrix gives: gates, what is convolved, steps in time."""
        self.kept = self.entered + self.convolved + 2 * self.inner
        """What the backward pass reads, beside the input and its norm."""


def state_space_activations(sizes: Sizes, hybrid: Hybrid) -> int:
    """Bytes that a forward pass keeps."""
    mask = sizes.own_elements if sizes.spec.model.dropout else 0
    return 2 * sizes.own_bytes + sizes.tokens * StateSpaceSizes(sizes, hybrid).kept * sizes.value_bytes + mask


class StateSpace(Part):
    """Norm, a matrix in, convolution, scan, a norm with a gate, a matrix out, residual."""

    def __init__(self, sizes: Sizes, tape: Tape, hybrid: Hybrid) -> None:
        super().__init__(sizes, tape)
        self.hybrid = hybrid
        self.own = own = StateSpaceSizes(sizes, hybrid)
        self.chunk = min(hybrid.chunk, self.spec.model.sequence)
        cp = self.spec.parallel.cp
        self.chunks = self.spec.batch.micro_batch * (self.spec.model.sequence // self.chunk)
        self.of_heads, self.of_groups = self.chunks * own.heads // cp, self.chunks * own.groups // cp
        """How many products there are, of heads and of groups, in all chunks."""
        size = sizes.value_bytes
        self.ends = sizes.tokens * own.groups * hybrid.state * size
        """Bytes of the inputs of states, and of their outputs."""
        self.values = sizes.tokens * own.inner * size
        """Bytes of what is scanned, and of what comes of it."""
        self.states = self.of_heads * hybrid.state * hybrid.head_size
        """Elements of the states of all chunks, which are of float32, as are the products within chunks."""
        self.within = 4 * self.of_groups * self.chunk**2
        """Bytes of these products."""

    def forward(self, node: int) -> int:
        """All of it; returns the node that has the result."""
        sizes, own = self.sizes, self.own
        node = self.enter("mamba", self.norm("mamba", node))
        node = self.matrix("mamba in", own.entered, sizes.hidden, node)
        node = self._exchange("heads of all tokens", own.entered, node)
        operations = 2 * self.hybrid.convolution + 4
        node = self.elementwise("convolution", sizes.tokens * own.convolved, 1, 1, node, operations=operations)
        node = self._exchange("tokens of all heads", own.inner, self._scan(self._states(node)))
        kind = WorkKind.NORMALIZATION
        node = self.elementwise("gated norm", sizes.tokens * own.inner, 2, 1, node, operations=8, kind=kind)
        node = self.matrix("mamba out", sizes.hidden, own.inner, node)
        return self.residual("mamba", self.leave("mamba", node))

    def backward(self, node: int) -> int:
        """Gradients of everything in `forward`; returns the node that has the gradient of the input."""
        sizes, own, residual = self.sizes, self.own, node
        node = self.enter("mamba gradient", self.residual_gradient("mamba", node))
        gradient = self.input_gradient("mamba out", sizes.hidden, own.inner, node)
        self.weight_gradient("mamba out", sizes.hidden, own.inner, node)
        kind, elements = WorkKind.NORMALIZATION, sizes.tokens * own.inner
        gradient = self.elementwise("gated norm gradient", elements, 3, 2, gradient, operations=16, kind=kind)
        gradient = self._exchange("heads of all tokens' gradients", own.inner, gradient)
        gradient = self._scan_gradient(gradient)
        elements, operations = sizes.tokens * own.convolved, 4 * self.hybrid.convolution + 8
        gradient = self.elementwise("convolution gradient", elements, 2, 1, gradient, operations=operations)
        gradient = self._exchange("tokens of all heads' gradients", own.entered, gradient)
        left = self.first_gradients("mamba in", own.entered, gradient)
        return self.norm_gradient_sum("mamba", left, residual)

    def _states(self, node: int, *, again: bool = False) -> int:
        """Products of outputs and inputs of states within chunks, and the states at the ends of chunks."""
        chunk, state, head, more = self.chunk, self.hybrid.state, self.hybrid.head_size, " again" if again else ""
        shape = (self.of_groups, chunk, chunk, state)
        node = self._product(f"chunk products{more}", shape, 2 * self.ends, self.within, node, again=again)
        shape = (self.of_heads, state, head, chunk)
        read = self.ends + self.values
        node = self._product(f"chunk states{more}", shape, read, 4 * self.states, node, again=again)
        return self._pass_on(f"states from chunk to chunk{more}", 1, node)

    def _scan(self, node: int) -> int:
        """What tokens get of their chunk, and of the states before it."""
        read = self.within + self.values + self.ends + 4 * self.states
        shape = (self.of_heads, self.chunk, self.hybrid.head_size, self.chunk + self.hybrid.state)
        return self._product("chunk scan", shape, read, self.values, node)

    def _scan_gradient(self, node: int) -> int:
        """Gradients of the scan's products: two for each."""
        chunk, state, head = self.chunk, self.hybrid.state, self.hybrid.head_size
        heads, groups, states = self.of_heads, self.of_groups, 4 * self.states
        node = self._states(node, again=True)
        node = self._product("states gradient", (heads, state, head, chunk), self.values + self.ends, states, node)
        node = self._pass_on("states gradient from chunk to chunk", 2, node)
        read = 2 * self.values + self.within + states + self.ends
        self._product("scanned gradient", (heads, chunk, head, chunk + state), read, self.values, node)
        for what in ("inputs", "outputs"):
            read = self.values + states
            self._product(f"states' {what} gradient", (heads, chunk, state, head), read, self.ends, node)
        node = self._product("products gradient", (heads, chunk, chunk, head), 2 * self.values, self.within, node)
        for what in ("inputs", "outputs"):
            name, read = f"{what} within chunks gradient", self.within + 2 * self.ends
            node = self._product(name, (groups, chunk, state, chunk), read, self.ends, node)
        return node

    def _exchange(self, what: str, elements: int, node: int) -> int:
        """From tokens to heads, or back, among the ranks that share a sequence: a scan goes over all of it."""
        if self.spec.parallel.cp == 1:
            return node
        size = self.sizes.tokens * elements * self.sizes.value_bytes
        return self.collective(what, CollectiveType.ALL_TO_ALL, size, node, role="cp")

    def _product(
        self, name: str, shape: tuple[int, int, int, int], read: int, written: int, node: int, *, again: bool = False
    ) -> int:
        """Products of matrices in one kernel, of which not all operands are in memory."""
        flops = 2 * prod(shape)
        repeated = flops if again else 0
        op = Op(name, WorkKind.GEMM, flops, read, written, shape, dtype=self.spec.dtype, again=repeated)
        return self.append(op, node)

    def _pass_on(self, name: str, reads: int, node: int) -> int:
        read, written = 4 * reads * self.states, 4 * self.states
        return self.compute(name, WorkKind.ELEMENTWISE, 2 * self.states, read, written, node, dtype="float32")
