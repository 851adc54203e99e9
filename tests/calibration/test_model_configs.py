"""Dimensions of models: built in, and in the forms that users have them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chakrasim.calibration.models import (
    built_in_models,
    find_config,
    load_model_configs,
    same_model,
    unlike_built_in,
)
from chakrasim.errors import InputError

CONFIG = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}


def test_built_in_models() -> None:
    config = find_config("meta-llama/Llama-3.1-70B", ())
    assert config is not None
    assert (config.hidden, config.intermediate, config.heads, config.kv_heads) == (8192, 28672, 64, 8)
    assert (config.head_dim, config.vocabulary, config.experts, config.source) == (128, 128256, 0, "built in")
    mixtral = find_config("mixtral-8x7b-v0.1", ())
    assert mixtral is not None and mixtral.experts == 8
    phi = find_config("Phi-mini-MoE-instruct", ())
    assert phi is not None and (phi.intermediate, phi.fused_norm) == (960, True)
    assert len({config.name for config in built_in_models()}) == len(built_in_models())


def test_names() -> None:
    assert same_model("Llama-3.1-70B", "meta-llama/llama-3.1-70b")
    assert not same_model("mirror/Llama-3.1-70B", "meta-llama/Llama-3.1-70B")
    assert not same_model("Llama-3.1-8B", "Llama-3.1-70B")


def test_what_is_given_comes_before_what_is_built_in() -> None:
    given = load_model_configs({"Llama-3.1-8B": {**CONFIG, "intermediate_size": 99}})
    found = find_config("meta-llama/Llama-3.1-8B", given)
    assert found is not None and (found.intermediate, found.source) == (99, "given")


@pytest.mark.parametrize(
    "content",
    [
        {"Mine": CONFIG},
        {"lab/Mine": CONFIG},
        {"models": {"lab/Mine": CONFIG}},
        {"models": [{"name": "Mine", **CONFIG}]},
        [{"model": "lab/Mine", **CONFIG}],
        {"_name_or_path": "lab/Mine", **CONFIG},
        {"Mine": {"model_type": "vision", "text_config": CONFIG}},
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_forms_of_files(tmp_path: Path, content: object, suffix: str) -> None:
    file = tmp_path / f"models{suffix}"
    file.write_text(json.dumps(content))  # JSON is YAML too
    found = find_config("lab/Mine", load_model_configs(file))
    assert found is not None
    assert (found.hidden, found.kv_heads, found.head_dim, found.source) == (4096, 8, 128, str(file))


def test_a_config_without_a_name_is_of_the_model_that_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIG, "head_dim": None, "torch_dtype": "bfloat16"}))
    assert [config.name for config in load_model_configs(file, "lab/Mine")] == ["lab/Mine"]
    with pytest.raises(InputError, match="does not say which model it is of"):
        load_model_configs(file)


def test_a_folder_of_configs(tmp_path: Path) -> None:
    (tmp_path / "Mine").mkdir()
    (tmp_path / "Mine" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "Other.yaml").write_text("hidden_size: 64\nintermediate_size: 256\nnum_attention_heads: 4\n")
    assert sorted(config.name for config in load_model_configs(tmp_path)) == ["Mine", "Other"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="no model configuration in this folder"):
        load_model_configs(empty)


def test_a_config_of_another_model_is_told() -> None:
    (mistaken,) = load_model_configs(CONFIG, "mistralai/Mixtral-8x7B-v0.1")
    assert unlike_built_in(mistaken).endswith("experts 0 instead of 8")
    assert unlike_built_in(replace(mistaken, name="lab/Mine")) == ""
    assert [unlike_built_in(known) for known in built_in_models()] == [""] * len(built_in_models())


def test_experts_have_their_own_width() -> None:
    (found,) = load_model_configs({"Mine": {**CONFIG, "num_experts": 128, "moe_intermediate_size": 768}})
    assert (found.experts, found.intermediate) == (128, 768)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[]", None),
        ("{}", "not a model configuration; found a mapping of 0 keys"),
        ("7", "not a model configuration; found '7'"),
        ("Mine: 7", "$.Mine: not a model configuration; found '7'"),
        ("Mine: {hidden_size: 64}", "$.Mine: the model configuration lacks 'num_attention_heads'"),
        ("Mine: {hidden_size: -1, num_attention_heads: 2}", "$.Mine.hidden_size: not a dimension; found '-1'"),
        ("Mine: {hidden_size: 64.5, num_attention_heads: 2}", "$.Mine.hidden_size: not a dimension; found '64.5'"),
        ("Mine: {hidden_size: [1]", "not YAML"),
    ],
)
def test_refusals(tmp_path: Path, content: str, expected: str | None) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(content)
    if expected is None:
        assert load_model_configs(file) == ()
        return
    with pytest.raises(InputError) as caught:
        load_model_configs(file)
    assert expected in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="model configuration: no such file"):
        load_model_configs(tmp_path / "none.yaml")
