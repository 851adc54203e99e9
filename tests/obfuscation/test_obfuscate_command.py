"""``chakrasim obfuscate``: kinds of inputs, the key's file, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from made import dense, small

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.obfuscation import api
from chakrasim.obfuscation.population.api import Guarantee
from chakrasim.trace.chakra.files import read_trace
from chakrasim.trace.job.job import Job


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.chdir(tmp_path)
    made = dense()
    cs.write_job("secret/step", made)
    return made


def run(*words: object) -> int:
    return main(["obfuscate", *map(str, words)])


def test_a_key_is_made_kept_and_never_released(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("--level", "names", "--machine", "h100", "--json", "-")
    assert run("secret/step", "-o", "one/step", *names, "--key", "my.key") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["format"] == "chakrasim-obfuscate/1" and told["price"][0]["largest_error"] == 0
    key = Path("my.key")
    assert len(key.read_bytes()) == 32 and key.stat().st_mode & 0o777 == 0o600
    assert run("secret/step", "-o", "two/step", *names, "--key", "my.key") == 0
    released = [{path.name: path.read_bytes() for path in Path(folder).iterdir()} for folder in ("one", "two")]
    assert released[0] == released[1] and all(key.read_bytes() not in data for data in released[0].values())
    assert run("secret/step", "-o", "three/step", *names) == 0
    assert Path("three/step.ranks.json").read_bytes() != Path("one/step.ranks.json").read_bytes()


def test_a_trace_and_a_folder_of_jobs(job: Job) -> None:
    cs.write_job("secret/gpt5/step", dense(layers=3))
    assert run("secret", "-o", "out", "--level", "names", "--machine", "h100", "--quiet") == 0
    found = sorted(path.name for path in Path("out").glob("*.ranks.json"))
    assert len(found) == 2 and all(name[:4] == "job_" for name in found) and not any("gpt" in name for name in found)
    assert sorted(len(cs.read_job(f"out/{name}").traces[0]) for name in found) == sorted(
        len(one.traces[0]) for one in (job, dense(layers=3))
    )
    assert run("secret/step.class-0.et", "-o", "one.et", "--level", "names", "--quiet") == 0
    assert len(read_trace("one.et")) == len(job.traces[0])
    assert run("secret/step", "-o", "wide/step", "--level", "names", "--machine", "h100", "--expand", "--quiet") == 0
    assert Path("wide/step.3.et").exists() and Path("wide/step.comm_group.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("secret/step", "-o", "secret/step", "--level", "names"), "--output would replace the input"),
        (("secret/step", "-o", "x.et", "--level", "names"), "the output is of another kind than the input"),
        (("secret/step.class-0.et", "-o", "x", "--level", "names"), "the output is of another kind than the input"),
        (("secret/step.class-0.et", "-o", "x.et", "--level", "behaviour"), "level behaviour needs a job, all"),
        (("secret", "-o", "secret", "--level", "names"), "the folder holds other files"),
        (("secret/step", "-o", "x", "--level", "name"), "there is no such level; found 'name'"),
        (("secret/step", "-o", "x", "--level", "names", "--ratio", "2"), "--ratio is for level behaviour"),
        (("secret", "-o", "x", "--level", "names", "--epsilon", "2"), "--epsilon is for level population"),
        (("secret", "-o", "x", "--level", "population", "--key", "k"), "--key is for levels that release jobs"),
        (("secret/step", "-o", "x", "--level", "population", "--delta", "1"), "a population is many jobs"),
        (("secret", "-o", "x", "--level", "population", "--epsilon", "-1"), "no epsilon of a release; found -1"),
        (("secret", "-o", "x", "--level", "names", "--key", "x/key"), "the key would be a part of the release"),
        (("secret", "-o", "x", "--level", "names", "--key", "x.key"), "the key would be a part of the release"),
        (("secret", "-o", "x", "--level", "names", "--json", "x/told"), "the JSON document would be a part"),
        (("secret/step", "-o", "x", "--level", "names", "--json", "x.ranks.json"), "the JSON document would be a part"),
        (("secret/step.class-0.et", "-o", "x.et", "--level", "names", "--json", "x.et"), "the JSON document would be"),
        (("secret/step", "-o", "x", "--level", "names", "--key", "short"), "the key of the pseudonyms is too short"),
        (("secret/step", "-o", "x", "--level", "behaviour", "--device-profile", "h100", "--ratio", "0.5"),
         "no ratio of a grid"),
        (("secret/step", "-o", "x", "--level", "names", "--machine", "nowhere"), "nowhere"),
        (("nothing", "-o", "x", "--level", "names"), "nothing"),
        (("secret", "-o", "x", "--level", "names", "--json", "secret/step.ranks.json"), "--json would replace an"),
        (("secret", "-o", "secret/step.ranks.json", "--level", "population"), "--output would replace the input"),
        (("secret", "-o", "secret", "--level", "population"), "the file cannot be written: it is a folder"),
        (("secret", "-o", "x", "--level", "population", "--machine", "nowhere"), "nowhere"),
    ],
)  # fmt: skip
def test_what_is_refused_writes_nothing(
    job: Job, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("short").write_bytes(b"short")
    before = sorted(Path().rglob("*"))
    assert run(*words) == 2
    assert message in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before


def test_a_folder_that_cannot_be_the_output_is_refused_before_anything_is_read(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("secret/step.class-0.et").write_bytes(b"nothing")
    assert run("secret", "-o", "secret", "--level", "motifs") == 2
    assert "the folder holds other files" in capsys.readouterr().err


def test_strict_writes_nothing_where_nothing_hides_the_spec(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    Path("secret/step.ranks.json").write_text(
        json.dumps(
            {k: v for k, v in json.loads(Path("secret/step.ranks.json").read_text()).items() if k != "parameters"}
        )
    )
    words = ("secret/step", "-o", "x", "--level", "behaviour", "--device-profile", "h100", "--machine", "h100")
    assert run(*words, "--strict", "--key", "new.key") == 2
    assert "is not known, so take it for 1" in capsys.readouterr().err
    assert not Path("new.key").exists() and not Path("x.ranks.json").exists()


def test_one_job_does_not_decide_whether_there_is_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = [small(number) for number in range(8)]
    model = cs.learn([(job.parameters, job) for job in jobs])
    monkeypatch.setattr(api, "of_population", lambda *_, **__: (model, Guarantee(4, 1e-5, 17, 8, 0, 0)))
    for at, job in enumerate([*jobs, replace(jobs[0], parameters={**jobs[0].parameters, "width": "x"})]):
        cs.write_job(f"jobs/{at}/step", job)
    assert run("jobs", "-o", "out", "--level", "population", "--machine", "h100", "--strict", "--json", "told") == 0
    assert Path("out").exists() and any(
        "no job of the parameters of one" in one for one in json.loads(Path("told").read_text())["notes"]
    )
