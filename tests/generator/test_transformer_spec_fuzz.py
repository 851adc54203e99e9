"""Any spec at all makes a checked job or an InputError, in bounded time."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim import InputError
from chakrasim.config.table import Table
from chakrasim.generator.spec.file import load_spec
from chakrasim.generator.spec.keys import BATCH, HYBRID, LATENTS, MODEL, MOE, OVERLAP, PARALLEL, SPEC
from chakrasim.generator.spec.spec import Spec
from chakrasim.generator.transformer import generate_transformer

WORDS = ["full", "selective", "interleaved", "gpipe", "float16", "llama-7b", "sgd", "layer", "25 MiB", "", "8"]
values = st.one_of(
    st.integers(-2, 9),
    st.sampled_from(WORDS),
    st.booleans(),
    st.none(),
    st.floats(),
    st.lists(st.integers(), max_size=2),
)


def mapping(table: Table, inner: Any = values) -> Any:
    return st.dictionaries(st.sampled_from([*(key.name for key in table), "other"]), inner, max_size=4)


models = st.builds(
    lambda some, sizes: {**sizes, **some},
    mapping(MODEL, st.one_of(values, mapping(MOE), mapping(LATENTS), mapping(HYBRID))),
    st.fixed_dictionaries(
        {
            "layers": st.integers(1, 8),
            "hidden": st.sampled_from([8, 12, 16]),
            "heads": st.sampled_from([2, 4]),
            "vocabulary": st.integers(1, 16),
            "sequence": st.integers(1, 8),
        }
    ),
)
specs = st.builds(
    lambda some, model, parallel, batch: {**some, "model": model, "parallel": parallel, "batch": batch},
    mapping(SPEC, st.one_of(values, mapping(OVERLAP))),
    st.one_of(models, values),
    mapping(PARALLEL),
    mapping(BATCH),
)


@settings(max_examples=400)
@given(specs)
def test_a_spec_is_generated_or_refused(content: dict[str, Any]) -> None:
    try:
        spec = load_spec(content)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert isinstance(spec, Spec)
    if spec.model.name != "llama-7b":
        assert generate_transformer(spec).job.ranks == spec.parallel.ranks
