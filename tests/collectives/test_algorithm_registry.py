"""Registering algorithms and asking for schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chakrasim.collectives import (
    Collective,
    Request,
    Schedule,
    ScheduleError,
    build,
    is_known,
    known_algorithms,
    register,
    registered,
)
from chakrasim.errors import InputError

ONE = Request(Collective.ALL_REDUCE, 4, 1000)


def alone(request: Request) -> Schedule:
    return build("ring", request)


def test_built_in_algorithms_are_known_by_the_names_of_the_configuration() -> None:
    names = {"ring", "direct", "halvingDoubling", "doubleBinaryTree", "oneRing", "oneDirect", "oneHalvingDoubling"}
    assert names <= set(known_algorithms())


def test_an_algorithm_can_be_registered_by_call_and_by_decorator() -> None:
    with registered("alone", alone):
        assert is_known("alone")
        assert build("alone", ONE).programs == build("ring", ONE).programs
        assert register("alone")(alone) is alone
    assert not is_known("alone")


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="'ring' is registered already"):
        register("ring", alone)
    with pytest.raises(ValueError, match="needs a name"):
        register("", alone)


@pytest.mark.parametrize(
    ("name", "request_", "message"),
    [
        ("rin", ONE, "unknown collective algorithm; found 'rin'; expected one of .*direct, "),
        ("ring", Request(Collective.ALL_REDUCE, 1, 1000), "at least 2 members; found 1"),
        ("ring", Request(Collective.ALL_REDUCE, 4, -1), "negative size; found -1 bytes"),
        ("ring", Request(Collective.BROADCAST, 4, 10, root=4), "not a member of the group; found 4; expected 0 to 3"),
        ("ring", Request(Collective.BROADCAST, 4, 10, root=-1), "not a member of the group; found -1"),
    ],
)
def test_requests_that_make_no_sense_are_refused(name: str, request_: Request, message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as caught:
        build(name, request_)
    assert isinstance(caught.value, InputError) and isinstance(caught.value, ValueError)


def test_an_algorithm_says_that_it_needs_a_power_of_two() -> None:
    with registered("alone", alone, power_of_two=True):
        assert build("alone", ONE).programs == build("ring", ONE).programs
        with pytest.raises(ScheduleError, match="alone needs a group whose size is a power of two; found 6 ranks"):
            build("alone", Request(Collective.ALL_REDUCE, 6, 1000))


def test_an_algorithm_gets_the_parameters_that_it_states() -> None:
    asked = []

    def mine(request: Request) -> Schedule:
        asked.append(dict(request.parameters))
        return build("ring", replace(request, parameters={}))

    with registered("mine", mine, parameters={"group": 8, "levels": 2}):
        build("mine", ONE)
        build("mine", replace(ONE, parameters={"levels": 3}))
        with pytest.raises(
            ScheduleError, match="mine has no such parameter; found size; expected one of group, levels"
        ):
            build("mine", replace(ONE, parameters={"size": 3}))
    assert asked == [{"group": 8, "levels": 2}, {"group": 8, "levels": 3}]
