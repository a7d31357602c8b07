from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from niskin.channels import (
    BOUNDARY_SETS,
    DEPTHS_M,
    PROGNOSTIC_SETS,
    depth_in_name,
    describe,
    level_of_depth,
    mask_level,
    resolve_channels,
    split_level,
)
from niskin.errors import UsageError


@pytest.mark.parametrize(
    ("key", "count"),
    [("thetao_1", 1), ("thermo_dynamic_5", 21), ("thermo_dynamic_all", 77), ("thermo_all", 39)],
)
def test_prognostic_sets_have_their_published_sizes(key: str, count: int) -> None:
    assert len(PROGNOSTIC_SETS[key]) == len(set(PROGNOSTIC_SETS[key])) == count


def test_channel_order_is_variable_major_then_surface() -> None:
    channels = (*PROGNOSTIC_SETS["thermo_dynamic_5"], *BOUNDARY_SETS["tau_hfds"])

    order = {channels.index(c): c for c in ("uo_0", "vo_0", "thetao_0", "so_0", "zos", "hfds")}

    assert order == {0: "uo_0", 5: "vo_0", 10: "thetao_0", 15: "so_0", 20: "zos", 23: "hfds"}
    assert channels[21:23] == ("tauuo", "tauvo")


def test_an_explicit_list_keeps_its_order() -> None:
    assert resolve_channels("prognostic", ["zos", "so_1", "so_0"]) == ("zos", "so_1", "so_0")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("thermo", "prognostic set: got 'thermo', expected one of thermo_all, thermo_dynamic_5"),
        ([], "got an empty list, expected at least one name"),
        (["so_0", "so_0"], "'so_0' occurs twice"),
        ([3], "got 3 at 0, expected a name"),
        (["thetao_lev_2_5"], "expected the level's index, thetao_0"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(choice: Any, message: str) -> None:
    with pytest.raises(UsageError, match="OM4: ") as caught:
        resolve_channels("prognostic", choice)

    assert message in str(caught.value)


def test_a_name_says_its_level_and_its_mask() -> None:
    assert split_level("thetao_4") == ("thetao", 4)
    assert split_level("hfds_anomalies") == ("hfds_anomalies", None)
    assert [mask_level(c) for c in ("thetao_4", "zos", "hfds_anomalies")] == [4, 0, 0]


def test_every_depth_of_the_table_is_found_through_float32() -> None:
    assert [level_of_depth(float(np.float32(d))) for d in DEPTHS_M] == list(range(19))
    assert level_of_depth(10.00005) == 1


@pytest.mark.parametrize("depth_m", [1040.0, 9999.0, 2.501, 0.0])
def test_the_nearest_depth_is_never_taken(depth_m: float) -> None:
    assert level_of_depth(depth_m) is None


def test_a_name_says_its_depth() -> None:
    assert depth_in_name("thetao_lev_2_5") == ("thetao", 2.5)
    assert depth_in_name("so_lev_85000_00000001") == ("so", 85000.00000001)
    assert depth_in_name("so_lev_top") == ("so", None)


def test_metadata_comes_from_attributes_only_where_both_are_there() -> None:
    given = {"long_name": "Salt", "units": "g kg-1"}

    assert describe("so_3", given) == given
    assert describe("so_3", {"long_name": "Salt"})["units"] == "psu"
    assert describe("hfds_anomalies", {})["long_name"].endswith("climatology")
    assert describe("chl", {}) == {"long_name": "Unknown", "units": "Unknown"}
