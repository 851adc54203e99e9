"""Compiled: from the tokens of nodes (`trace/json/scan.py`) to the rows of a `HostTrace`."""

# mypy: disable-error-code="assignment"
# Compiled code knows one integer, of 64 bits; a checker sees Python's and NumPy's.

from __future__ import annotations

from typing import Any, Final

import numpy as np

from chakrasim.jit import inner, kernel
from chakrasim.trace.host import columns as h
from chakrasim.trace.json import tokens as js
from chakrasim.trace.json import values as jv
from chakrasim.trace.json.rare import PENDING

# The keys of the vocabulary, in its order: of the document (the list first), of a node and what its attributes may be
# called, of inputs, of outputs, of the list of attributes, of an attribute.
DOCUMENT_KEYS: Final = ("nodes", "schema", "pid", "time", "start_ts", "finish_ts")
INTEGERS: Final = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
TEXTS: Final = ("op_schema", "kernel_backend", "kernel_file")
NODE_KEYS: Final = (
    *("id", "ctrl_deps", "parent", "name", "inputs", "input_shapes", "input_types"),
    *("outputs", "output_shapes", "output_types", "attrs", "", *INTEGERS, *TEXTS, *h.RARE_ATTRIBUTES),
)
PART_KEYS: Final = ("values", "shapes", "types")
ATTRIBUTE_KEYS: Final = ("name", "value", "")
_FIRST: Final = len(DOCUMENT_KEYS)
ID, CTRL_DEPS, PARENT, NAME, INPUTS = range(5)
OUTPUTS, ATTRS, NODE_END = 7, 10, 11
_INTEGER: Final = 12
_TEXT: Final = _INTEGER + len(INTEGERS)
_RARE: Final = _TEXT + len(TEXTS)
_PARTS: Final = len(NODE_KEYS)
ATTRIBUTE_NAME: Final = _PARTS + 6
ATTRIBUTE_VALUE, ATTRIBUTE_END = ATTRIBUTE_NAME + 1, ATTRIBUTE_NAME + 2
KEYS: Final = ATTRIBUTE_END + 1

# Parts of the columns: a node's id, parent and INTEGERS, its name and TEXTS, its spans, node after node.
WORDS, NAMES, SPANS = range(3)
ROW_WORDS: Final = 2 + len(INTEGERS)
ROW_NAMES: Final = 1 + len(TEXTS)
ROW_SPANS: Final = 2 * h.SPANS
# Parts of the tensors, of the rare values.
NODE, IS_OUTPUT, ARGUMENT, TENSOR_ID, STORAGE_ID, OFFSET, ELEMENTS, ELEMENT_BYTES, DEVICE = range(9)
ROW, RARE_KEY, RARE_KIND, BITS = range(4)

# Slots of ``count`` behind those of the strings: where taking stands, and what is counted.
ROWS, RARES, TENSORS, TAKEN, STRICT, NO_ID, ODD_VALUES, LARGE, BAD_PLACE = range(3, 12)
COUNT_SIZE: Final = 12
DONE, GROW, BAD_NODE = 0, 1, -50
TENSOR_BYTES: Final = 14  # the shortest text of a tensor


@inner
def _whole(buf: Any, tok: Any, token: Any, count: Any) -> Any:
    """An integer of 64 bits with or without a sign, or the text of one; -1 if it is neither."""
    kind = tok[token + js.KIND]
    if kind in (js.INTEGER, js.TEXT):
        value, fine = jv.word(buf, tok[token + js.START], tok[token + js.STOP])
        if fine:
            return value
    count[ODD_VALUES] += 1
    return -1


@inner
def _text(buf: Any, kind: Any, start: Any, stop: Any, strings: Any, count: Any) -> Any:
    odd = kind in (js.ODD_TEXT, js.ODD_JSON)
    return jv.intern_text(buf, start, stop, odd, kind == js.ODD_TEXT, strings, count)


@inner
def _take_rare(buf: Any, tok: Any, token: Any, name: Any, rare: Any, strings: Any, count: Any) -> Any:
    """Append a value to the rare ones."""
    kind, start, stop = tok[token + js.KIND], tok[token + js.START], tok[token + js.STOP]
    fine, bits = False, 0
    if kind == js.INTEGER:
        bits, fine = jv.integer(buf, start, stop)
        count[LARGE] += not fine
    elif kind in (js.REAL, js.NON_NUMBER):
        kind, bits, fine = PENDING, start << 31 | (stop - start), True
    if not fine:
        bits = _text(buf, kind, start, stop, strings, count)
        kind = js.TEXT if kind in (js.TEXT, js.ODD_TEXT, js.INTEGER) else js.JSON
    at = count[RARES]
    rare[ROW][at], rare[RARE_KEY][at], rare[RARE_KIND][at], rare[BITS][at] = count[ROWS], name, kind, bits
    count[RARES] = at + 1


@inner
def _skip_space(buf: Any, pos: Any) -> Any:
    while buf[pos] == 32 or buf[pos] == 10 or buf[pos] == 13 or buf[pos] == 9:
        pos += 1
    return pos


@inner
def _text_end(buf: Any, pos: Any) -> Any:
    """The position of the quote that closes a checked text, which begins at ``pos``."""
    while buf[pos] != 34:
        pos += 2 if buf[pos] == 92 else 1
    return pos


@inner
def _tensor(buf: Any, pos: Any, tensors: Any, strings: Any, count: Any) -> Any:
    """The position after the tensor at ``pos``, which becomes the next one; -1 if the list there is none."""
    at = count[TENSORS]
    for part in range(5):
        pos = _skip_space(buf, pos + 1)
        start = pos
        while buf[pos] == 45 or 48 <= buf[pos] <= 57:
            pos += 1
        value, fine = jv.word(buf, start, pos)
        pos = _skip_space(buf, pos)
        if not fine or buf[pos] != 44:
            return -1
        if part == 0:
            tensors[TENSOR_ID][at] = value
        elif part == 1:
            tensors[STORAGE_ID][at] = value
        elif part == 2:
            tensors[OFFSET][at] = value
        elif part == 3:
            tensors[ELEMENTS][at] = value
        else:
            tensors[ELEMENT_BYTES][at] = value
    pos = _skip_space(buf, pos + 1)
    if buf[pos] != 34:
        return -1
    start = pos + 1
    stop = _text_end(buf, start)
    pos = _skip_space(buf, stop + 1)
    if buf[pos] != 93:
        return -1
    tensors[DEVICE][at] = jv.intern_text(buf, start, stop, np.bool_(True), np.bool_(True), strings, count)
    return pos + 1


@inner
def _take_tensors(buf: Any, pos: Any, stop: Any, side: Any, tensors: Any, strings: Any, count: Any) -> Any:
    """Append the tensors in the checked list ``buf[pos:stop]`` of a node's values, however deeply they are listed."""
    depth, argument, objects = 0, 0, 0
    while pos < stop:
        byte = buf[pos]
        if byte == 34:
            pos = _text_end(buf, pos + 1)
        elif byte == 123:
            objects += 1
        elif byte == 125:
            objects -= 1
        elif objects == 0 and byte == 91:
            after = _tensor(buf, pos, tensors, strings, count) if depth > 0 else -1
            if after >= 0:
                at = count[TENSORS]
                tensors[NODE][at], tensors[IS_OUTPUT][at], tensors[ARGUMENT][at] = count[ROWS], side, argument
                count[TENSORS] = at + 1
                pos = after
                continue
            depth += 1
        elif objects == 0 and byte == 93:
            depth -= 1
        elif byte == 44 and objects == 0 and depth == 1:
            argument += 1
        pos += 1


@inner
def _span(tok: Any, token: Any, row: Any, part: Any, spans: Any) -> Any:
    """Note where a value stands, a text with its quotes."""
    quote = tok[token + js.KIND] in (js.TEXT, js.ODD_TEXT)
    spans[row * ROW_SPANS + 2 * part] = tok[token + js.START] - quote
    spans[row * ROW_SPANS + 2 * part + 1] = tok[token + js.STOP] + quote


@inner
def _take(buf: Any, tok: Any, last: Any, at: Any, cols: Any, tensors: Any, rare: Any, strings: Any, count: Any) -> Any:
    """Append a node. ``at``: the token of each of its keys, -1 if it has none; ``last``: the one that ends it."""
    row, spans = count[ROWS], cols[SPANS]
    for word in range(ROW_SPANS):
        spans[row * ROW_SPANS + word] = 0
    _span(tok, last, row, h.SPAN_NODE, spans)
    _span(tok, at[ID], row, h.SPAN_ID, spans)
    cols[WORDS][row * ROW_WORDS] = _whole(buf, tok, at[ID], count)
    parent = at[CTRL_DEPS] if at[CTRL_DEPS] >= 0 else at[PARENT]
    cols[WORDS][row * ROW_WORDS + 1] = -1
    if parent >= 0:
        cols[WORDS][row * ROW_WORDS + 1] = _whole(buf, tok, parent, count)
        _span(tok, parent, row, h.SPAN_PARENT, spans)
    cols[NAMES][row * ROW_NAMES] = 0
    if at[NAME] >= 0:
        token = at[NAME]
        _span(tok, token, row, h.SPAN_NAME, spans)
        cols[NAMES][row * ROW_NAMES] = _text(
            buf, tok[token + js.KIND], tok[token + js.START], tok[token + js.STOP], strings, count
        )  # fmt: skip
    for part in range(6):
        token = at[INPUTS + part]
        if at[_PARTS + part] >= 0:
            token = at[_PARTS + part]
        if token >= 0 and tok[token + js.KIND] != js.OPENED:
            _span(tok, token, row, h.SPAN_IN_VALUES + part, spans)
            if part % 3 == 0 and tok[token + js.KIND] in (js.JSON, js.ODD_JSON):
                _take_tensors(buf, tok[token + js.START], tok[token + js.STOP], part // 3, tensors, strings, count)
    for key in range(_INTEGER, _PARTS):
        token = at[key]
        if key < _TEXT:
            cols[WORDS][row * ROW_WORDS + 2 + key - _INTEGER] = _whole(buf, tok, token, count) if token >= 0 else -1
        elif key < _RARE:
            value = 0
            if token >= 0:
                value = _text(buf, tok[token + js.KIND], tok[token + js.START], tok[token + js.STOP], strings, count)
            cols[NAMES][row * ROW_NAMES + 1 + key - _TEXT] = value
        elif token >= 0:
            _take_rare(buf, tok, token, key - _RARE, rare, strings, count)
    count[ROWS] = row + 1


@inner
def _has_room(values: Any, size: Any, cols: Any, tensors: Any, rare: Any, strings: Any, count: Any) -> Any:
    """Whether the arrays take another node of so many values and bytes."""
    texts = values + size // TENSOR_BYTES
    return (
        ROW_WORDS * (count[ROWS] + 1) <= len(cols[WORDS])
        and count[RARES] + values <= len(rare[ROW])
        and count[TENSORS] + size // TENSOR_BYTES + 1 <= len(tensors[NODE])
        and 2 * (count[jv.STRINGS] + texts) <= len(strings[jv.HASHES])
        and count[jv.STRINGS] + texts < len(strings[jv.ENDS])
        and count[jv.BYTES] + 3 * size <= len(strings[jv.BLOB])
    )


@kernel
def take_nodes(
    buf: Any, st: Any, voc: Any, tok: Any, cols: Any, tensors: Any, rare: Any, strings: Any, count: Any, scratch: Any
) -> Any:
    """Append the nodes that ``tok`` holds, from token ``count[TAKEN]`` on.

    DONE, GROW (an array is too small for the next node), or BAD_NODE (an element, at ``count[BAD_PLACE]``, has no id;
    only if ``count[STRICT]``). ``scratch`` is int64[2, KEYS].
    """
    at, listed = scratch[0], scratch[1]
    total, first = js.TOKEN * st[js.TOKENS], js.TOKEN * count[TAKEN]
    at[:] = -1
    listed[:] = -1
    name, value = -1, -1
    for token in range(first, total, js.TOKEN):
        key = tok[token + js.KEY] - _FIRST
        if key == ATTRIBUTE_NAME:
            name = token
            continue
        if key == ATTRIBUTE_VALUE:
            value = token
            continue
        if key == ATTRIBUTE_END:
            if name >= 0 and value >= 0 and tok[name + js.KIND] == js.TEXT:
                of = js.find_key(buf, tok[name + js.START], tok[name + js.STOP], np.int64(1), voc) - _FIRST
                if of >= _INTEGER:
                    listed[of] = value
            name, value = -1, -1
            continue
        if key != NODE_END:
            if key == ATTRS:  # of several values of a key the last counts
                listed[:] = -1
            elif key == INPUTS:
                at[_PARTS : _PARTS + 3] = -1
            elif key == OUTPUTS:
                at[_PARTS + 3 : _PARTS + 6] = -1
            at[key] = token
            continue
        start, stop = tok[token + js.START], tok[token + js.STOP]
        if tok[token + js.KIND] != js.RECORD or at[ID] < 0 or tok[at[ID] + js.KIND] != js.INTEGER:
            count[NO_ID] += 1
            if count[STRICT] != 0:
                count[BAD_PLACE] = start
                return BAD_NODE
        else:
            if not _has_room((token - first) // js.TOKEN + 4, stop - start, cols, tensors, rare, strings, count):
                return GROW
            for attribute in range(_INTEGER, _PARTS):
                if listed[attribute] >= 0:
                    at[attribute] = listed[attribute]
            _take(buf, tok, token, at, cols, tensors, rare, strings, count)
        first = token + js.TOKEN
        count[TAKEN] = first // js.TOKEN
        at[:] = -1
        listed[:] = -1
    return DONE
