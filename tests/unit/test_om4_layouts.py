from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

from niskin.channels import PROGNOSTIC_SETS
from niskin.errors import FormatError
from niskin.layout import ChannelLocation
from stores import TinyStore, change_json, compressor, tiny_store, write_array

LAYOUTS = ("flat", "depth-names", "compact", "compact-time-first", "mixed")
FORMS = ("flat", "compact", "netcdf", "netcdf-compact")


def assert_whole(store: TinyStore, **options: Any) -> None:
    """Everything that the store holds is read back, bit for bit."""
    dataset = store.open(**options)
    rows = range(len(dataset.time))
    np.testing.assert_array_equal(
        dataset.read(np.arange(len(rows)), dataset.channels),
        store.expected(rows, dataset.channels),
    )
    for channel in dataset.channels:
        np.testing.assert_array_equal(dataset.masks[channel], store.masks[channel])
    means, stds = dataset.statistics(dataset.channels)
    np.testing.assert_array_equal(means, [store.mean[c] for c in dataset.channels])
    np.testing.assert_array_equal(stds, [store.std[c] for c in dataset.channels])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_indistinguishable_above_the_mapping(tmp_path: Path, layout: Any) -> None:
    store = tiny_store(tmp_path, layout=layout)

    assert_whole(store)
    dataset = store.open()
    assert dataset.channels == (*store.prognostic, *store.boundary)
    assert str(dataset.time[0]) == "1958-01-03 12:00:00"
    assert dataset.time[0].calendar == "julian"
    np.testing.assert_array_equal(dataset.lat, store.lat)
    np.testing.assert_array_equal(dataset.lon, store.lon)
    assert dataset.lat.dtype == np.dtype(np.float64)


@pytest.mark.parametrize(("layout", "form"), [*itertools.product(("flat", "compact"), FORMS)])
def test_statistics_of_any_form_serve_any_layout(tmp_path: Path, layout: Any, form: Any) -> None:
    assert_whole(tiny_store(tmp_path, layout=layout, statistics=form, rows=2))


@pytest.mark.parametrize("mask", ["flat", "stacked", "stacked-time"])
def test_masks_of_any_form_serve_any_layout(tmp_path: Path, mask: Any) -> None:
    assert_whole(tiny_store(tmp_path, layout="flat", mask=mask, rows=2))


@pytest.mark.parametrize(
    "codec", ["none", "lz4", "zstd", "blosc-lz4", "blosc-zstd", "zlib", "gzip"]
)
def test_codecs_are_read(tmp_path: Path, codec: Any) -> None:
    assert_whole(tiny_store(tmp_path, layout="compact", codec=codec, rows=2))


@pytest.mark.parametrize(
    ("dtype", "order", "separator", "consolidated"),
    [
        ("<f4", "C", "/", True),
        (">f4", "C", ".", True),
        (">f4", "F", ".", False),
        ("<f4", "F", "/", False),
    ],
)
def test_byte_order_memory_order_and_separator_are_read(
    tmp_path: Path, dtype: str, order: Any, separator: Any, consolidated: bool
) -> None:
    store = tiny_store(
        tmp_path, layout="mixed", dtype=dtype, order=order, separator=separator, rows=2,
        consolidated=consolidated,
    )  # fmt: skip

    assert_whole(store)
    assert store.open().read([0], ["zos"]).dtype == np.dtype("=f4")


@pytest.mark.parametrize("layout", ["flat", "compact", "compact-time-first"])
def test_chunks_of_any_shape_are_read(tmp_path: Path, layout: Any) -> None:
    assert_whole(
        tiny_store(
            tmp_path,
            layout=layout,
            rows=7,
            rows_per_chunk=3,
            levels_per_chunk=2,
            cell_chunks=(3, 4),
            codec="blosc-lz4",
        )
    )


def test_a_channel_is_exactly_the_name_asked_in_any_order(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, layout="compact", rows=2)
    names = ("uo_0", "vo_0", "uo_1", "vo_1")

    for asked in itertools.permutations(names):
        dataset = store.open(prognostic=asked)
        assert dataset.prognostic == asked
        np.testing.assert_array_equal(dataset.read([1], asked), store.expected([1], asked))
        np.testing.assert_array_equal(dataset.statistics(asked)[0], [store.mean[c] for c in asked])


@pytest.mark.parametrize("position", [0, 38, 76])
def test_surface_statistics_stay_one_value_wherever_they_are_asked(
    tmp_path: Path, position: int
) -> None:
    """77 channels: level k of the v-th variable has mean 1000 v + k, and zos has -7."""
    store = tiny_store(tmp_path, layout="compact", levels=19, rows=1)
    means = zarr.open_group(store.means, mode="w", zarr_format=2)
    for number, variable in enumerate(("uo", "vo", "thetao", "so")):
        write_array(means, variable, np.arange(19, dtype="f4") + 1000 * number, ("lev",))
    for surface in ("zos", *store.boundary):
        write_array(means, surface, np.float32(-7), ())
    channels = [c for c in PROGNOSTIC_SETS["thermo_dynamic_all"] if c != "zos"]
    expected = [1000.0 * v + k for v in range(4) for k in range(19)]
    channels.insert(position, "zos")
    expected.insert(position, -7.0)

    values, _ = store.open(prognostic=channels).statistics(channels)

    assert values.tolist() == expected


def test_published_sets_open_a_store_of_19_levels(tmp_path: Path) -> None:
    dataset = tiny_store(tmp_path, layout="depth-names", levels=19, rows=1).open(
        prognostic="thermo_dynamic_all", boundary="tau_hfds"
    )

    assert len(dataset.channels) == 80


def test_locations_name_the_physical_array_and_level(tmp_path: Path) -> None:
    compact = tiny_store(tmp_path / "a", layout="mixed", rows=1).open()
    named = tiny_store(tmp_path / "b", layout="depth-names", rows=1).open()

    assert compact.location("thetao_2") == ChannelLocation(array="thetao", level=2)
    assert compact.location("uo_2") == ChannelLocation(array="uo_2", level=None)
    assert compact.location("zos") == ChannelLocation(array="zos", level=None)
    assert named.location("thetao_2") == ChannelLocation(array="thetao_lev_22_5", level=None)
    with pytest.raises(KeyError, match=r"unknown channels uo_9 .*near uo_"):
        compact.location("uo_9")


def test_an_array_of_that_very_name_wins_over_a_level(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, layout="compact", rows=2, consolidated=False)
    root = zarr.open_group(store.data, mode="r+")
    write_array(root, "thetao_1", np.full((2, 4, 6), 5, "<f4"), ("time", "y", "x"))

    dataset = store.open()

    assert dataset.location("thetao_1") == ChannelLocation(array="thetao_1", level=None)
    assert (dataset.read([0, 1], ["thetao_1"]) == 5).all()


def test_depth_names_match_within_a_tolerance(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, layout="depth-names", rows=1, consolidated=False)
    (store.data / "thetao_lev_22_5").rename(store.data / "thetao_lev_22_5000100")

    assert store.open().location("thetao_2").array == "thetao_lev_22_5000100"


def test_a_depth_off_the_table_is_refused_and_the_table_listed(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, layout="depth-names", rows=1, consolidated=False)
    (store.data / "thetao_lev_22_5").rename(store.data / "thetao_lev_1040_0")

    with pytest.raises(FormatError, match=r"thetao_lev_1040_0: depth: no level within tolerance"):
        store.open()
    # Nobody asked for temperature, so its names do not matter.
    assert store.open(prognostic=["so_0"]).channels[0] == "so_0"


def test_two_arrays_at_one_depth_are_refused(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, layout="depth-names", rows=1, consolidated=False)
    root = zarr.open_group(store.data, mode="r+")
    write_array(root, "so_lev_10", np.zeros((1, 4, 6), "<f4"), ("time", "y", "x"))

    with pytest.raises(FormatError, match="so_1: got so_lev_10 and so_lev_10_0 at one depth"):
        store.open()


def test_lat_and_lon_as_dimensions_are_read_and_2d_ones_are_not(tmp_path: Path) -> None:
    plain = tiny_store(tmp_path / "a", rows=1, consolidated=False)
    root = zarr.open_group(plain.data, mode="r+")
    for name in ("lat", "lon"):
        write_array(root, name, np.full((4, 6), np.nan), ("y", "x"))
    np.testing.assert_array_equal(plain.open().lat, plain.lat)

    renamed = tiny_store(tmp_path / "b", rows=1, consolidated=False)
    for old, new in (("y", "lat"), ("x", "lon")):
        (renamed.data / old).rename(renamed.data / new)
    for attributes in renamed.data.glob("*/.zattrs"):
        text = attributes.read_text().replace('"y"', '"lat"').replace('"x"', '"lon"')
        attributes.write_text(text)
    np.testing.assert_array_equal(renamed.open().lon, renamed.lon)


def test_stored_anomalies_are_an_ordinary_channel(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, rows=1, consolidated=False)
    for path, value in ((store.data, np.ones((1, 4, 6), "<f4")), (store.means, np.float32(0))):
        dims = ("time", "y", "x") if value.ndim else ()
        write_array(zarr.open_group(path, mode="r+"), "hfds_anomalies", value, dims)
    write_array(zarr.open_group(store.stds, mode="r+"), "hfds_anomalies", np.float32(2), ())
    for path in (store.means, store.stds):
        zarr.consolidate_metadata(path, zarr_format=2)

    dataset = store.open(boundary="tau_hfds_hfds_anom")

    assert dataset.boundary == ("tauuo", "tauvo", "hfds", "hfds_anomalies")
    assert (dataset.read([0], ["hfds_anomalies"]) == 1).all()


def test_a_channel_in_both_lists_comes_once(tmp_path: Path) -> None:
    dataset = tiny_store(tmp_path, rows=1).open(prognostic=["zos", "hfds"], boundary=["hfds"])

    assert dataset.channels == ("zos", "hfds")
    assert dataset.boundary == ("hfds",)


def test_shuffle_minus_one_is_read(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, codec="blosc-lz4", rows=1, consolidated=False)
    config = compressor("blosc-lz4").get_config()
    change_json(store.data / "zos" / ".zarray", compressor=config | {"shuffle": -1})

    assert_whole(store)


def test_a_store_written_by_xarray_is_read(tmp_path: Path) -> None:
    """As production stores are: masks int8 labelled bool, 2-D lat and lon, unused variables."""
    tiny = tiny_store(tmp_path / "tiny", rows=3)
    spatial = ("y", "x")
    variables: dict[str, Any] = {c: (("time", *spatial), v) for c, v in tiny.truth.items()}
    variables |= {f"mask_{k}": (spatial, tiny.masks[f"so_{k}"]) for k in range(3)}
    variables["ocean_fraction"] = (("lev", *spatial), np.ones((3, 4, 6)))
    coordinates: dict[str, Any] = {
        "time": xr.date_range("1958-01-03T12", periods=3, freq="5D", calendar="julian",
                              use_cftime=True),
        "y": tiny.lat,
        "x": tiny.lon,
        "lat": (spatial, np.full((4, 6), np.nan)),
        "lev": [2.5, 10.0, 22.5],
    }  # fmt: skip
    attributes = {"regrid_method": "conservative", "nested": {"empty": float("nan")}}
    dataset = xr.Dataset(variables, coordinates, attributes)
    shutil.rmtree(tiny.data)
    dataset.to_zarr(
        tiny.data,
        zarr_format=2,
        consolidated=True,
        encoding={c: {"compressors": None, "chunks": (1, 4, 6)} for c in tiny.truth},
    )

    assert_whole(tiny)
    np.testing.assert_array_equal(tiny.open().time, dataset.time.values)
