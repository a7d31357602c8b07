"""The sample store: its geometry, its layouts and codecs, what in it is real, what is learnable."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from typer.testing import CliRunner

from niskin import sample_store
from niskin.cli import app
from niskin.errors import UsageError
from niskin.om4 import open_om4
from niskin.sample_store import climatology, pentads
from niskin.sample_store.grid import Grid
from niskin.sample_store.ocean import Ocean
from niskin.sample_store.request import Request
from niskin.sample_store.slow_ocean import SlowOcean
from niskin.sample_store.writer import StoreWriter

FEW = "uo_0,thetao_0,thetao_1,thetao_2,zos,hfds"


def build(out: Path, **options: Any) -> sample_store.SampleStore:
    settings = {"resolution": "2deg", "rows": 3, "variables": FEW, "codec": "none", **options}
    return sample_store.build(out, **settings)


def field(store: sample_store.SampleStore, name: str) -> np.ndarray:
    return np.asarray(zarr.open_group(store.data, mode="r")[name][...])


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> sample_store.SampleStore:
    return build(tmp_path_factory.mktemp("flat") / "store", codec="lz4")


def test_dates_are_noon_pentads_of_the_julian_calendar_with_a_gap_over_29_february() -> None:
    dates = pentads.pentad_dates(1958, 65 * 73)
    assert (len(dates), dates[0].isoformat(), dates[-1].isoformat()) == (
        4745,
        "1958-01-03T12:00:00",
        "2022-12-29T12:00:00",
    )
    days, units = pentads.days_since(1958, 65 * 73)
    gaps = np.diff(days)
    assert (days[0], units) == (2, "days since 1958-01-01 12:00:00")
    assert sorted(set(gaps)) == [5, 6]
    long = np.flatnonzero(gaps == 6)
    assert len(long) == 16
    assert {(dates[i].month, dates[i].day) for i in long} == {(2, 27)}
    assert all(dates[i].year % 4 == 0 for i in long)


@pytest.mark.parametrize(
    ("name", "ny", "nx", "north"),
    [("2deg", 90, 180, 88.48), ("1deg", 180, 360, 89.24), ("0.5deg", 360, 720, 89.62)],
)
def test_latitudes_are_gaussian(name: str, ny: int, nx: int, north: float) -> None:
    assert sample_store.RESOLUTIONS[name] == (ny, nx)
    grid = Grid.gaussian(ny, nx)
    assert grid.lat[-1] == pytest.approx(north, abs=0.01)
    np.testing.assert_allclose(grid.lat, -grid.lat[::-1], atol=1e-12)
    assert (grid.lon[0], grid.lon[-1]) == (180 / nx, 360 - 180 / nx)


def test_metadata_on_disk_is_that_of_a_production_store(flat: sample_store.SampleStore) -> None:
    def metadata(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        array = json.loads((flat.data / name / ".zarray").read_text())
        return array, json.loads((flat.data / name / ".zattrs").read_text())

    array, attributes = metadata("thetao_1")
    assert (array["zarr_format"], array["dtype"], array["order"]) == (2, "<f4", "C")
    assert (array["shape"], array["chunks"]) == ([3, 90, 180], [1, 90, 180])
    assert (array["fill_value"], array["filters"]) == ("NaN", None)
    lz4 = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    assert lz4.items() <= array["compressor"].items()
    assert attributes["_ARRAY_DIMENSIONS"] == ["time", "y", "x"]
    assert attributes["units"] == "degC"
    for name in ("time", "x", "y"):
        array, attributes = metadata(name)
        assert lz4.items() <= array["compressor"].items()
        assert attributes["_ARRAY_DIMENSIONS"] == [name]
    array, attributes = metadata("mask_18")
    assert (array["dtype"], array["fill_value"], array["chunks"]) == ("|i1", None, [90, 180])
    assert attributes["dtype"] == "bool"
    consolidated = json.loads((flat.data / ".zmetadata").read_text())["metadata"]
    assert {".zattrs", "thetao_1/.zarray", "mask_18/.zattrs"} <= set(consolidated)
    assert (flat.data / "thetao_1" / "2.0.0").is_file()


def test_xarray_reads_times_masks_and_land(flat: sample_store.SampleStore) -> None:
    with xr.open_zarr(flat.data) as data:
        assert data.time.values[0].calendar == "julian"
        assert set(data.coords) == {"time", "x", "y", "lat", "lon", "lev", "dz"}
        assert data["mask_0"].dtype == bool
        for channel, mask in (("thetao_2", "mask_2"), ("uo_0", "mask_0"), ("hfds", "mask_0")):
            wet = np.broadcast_to(data[mask].values, (3, 90, 180))
            np.testing.assert_array_equal(np.isfinite(data[channel].values), wet)


def test_statistics_are_float64_moments_of_the_wet_cells(flat: sample_store.SampleStore) -> None:
    means = zarr.open_group(flat.means, mode="r")
    stds = zarr.open_group(flat.stds, mode="r")
    for channel in FEW.split(","):
        values = field(flat, channel).astype(np.float64)
        assert means[channel].shape == ()
        assert means[channel].dtype == np.float32
        assert means[channel][()] == np.float32(np.nanmean(values))
        assert stds[channel][()] == np.float32(np.nanstd(values))


@pytest.mark.parametrize("layout", ["compact", "compact-time-first"])
def test_compact_layouts_hold_the_same_values(
    flat: sample_store.SampleStore, tmp_path: Path, layout: str
) -> None:
    store = build(tmp_path / "store", layout=layout, codec="zstd")
    time_first = layout == "compact-time-first"
    array = zarr.open_group(store.data, mode="r")["thetao"]
    assert array.shape == ((3, 3, 90, 180))
    assert array.chunks == ((1, 3, 90, 180) if time_first else (3, 1, 90, 180))
    values = field(store, "thetao")
    for level in range(3):
        one = values[:, level] if time_first else values[level]
        np.testing.assert_array_equal(one, field(flat, f"thetao_{level}"))
        np.testing.assert_array_equal(field(store, "wetmask")[level], field(flat, f"mask_{level}"))
    np.testing.assert_array_equal(field(store, "zos"), field(flat, "zos"))
    for ours, theirs in ((store.means, flat.means), (store.stds, flat.stds)):
        vector = zarr.open_group(ours, mode="r")["thetao"]
        assert vector.attrs["_ARRAY_DIMENSIONS"] == ["lev"]
        assert vector[1] == zarr.open_group(theirs, mode="r")["thetao_1"][()]


def test_a_row_does_not_depend_on_variables_rows_codec_or_chunks(
    flat: sample_store.SampleStore, tmp_path: Path
) -> None:
    store = build(
        tmp_path / "store", rows=20, variables=["zos", "thetao_1"], rows_per_chunk=8, threads=1
    )
    assert zarr.open_group(store.data, mode="r")["zos"].chunks == (8, 90, 180)
    for channel in ("zos", "thetao_1"):
        np.testing.assert_array_equal(field(store, channel)[:3], field(flat, channel))
    assert np.isfinite(field(store, "zos")).any(axis=(1, 2)).all()


def test_another_seed_is_other_weather_over_the_same_ocean(
    flat: sample_store.SampleStore, tmp_path: Path
) -> None:
    store = build(tmp_path / "store", seed=1)
    np.testing.assert_array_equal(field(store, "mask_0"), field(flat, "mask_0"))
    wet = field(flat, "mask_0").astype(bool)
    difference = (field(store, "thetao_0") - field(flat, "thetao_0"))[:, wet]
    assert 0.1 < difference.std() < 2.0


@pytest.mark.parametrize("codec", sample_store.CODECS)
def test_every_codec_reads_back(tmp_path: Path, codec: str) -> None:
    request = Request.checked(
        resolution="2deg",
        years=1,
        rows=2,
        layout="flat",
        codec=codec,
        variables="zos",
        start_year=1958,
        seed=0,
        rows_per_chunk=1,
    )
    wet = np.ones((19, 90, 180), dtype=bool)
    writer = StoreWriter(tmp_path / "s.zarr", request, Grid.gaussian(90, 180), wet, {})
    values = np.arange(2 * 90 * 180, dtype=np.float32).reshape(2, 90, 180)
    writer.write("zos", 0, values)
    writer.finish()
    np.testing.assert_array_equal(
        zarr.open_group(tmp_path / "s.zarr", mode="r")["zos"][...], values
    )
    size = (tmp_path / "s.zarr" / "zos" / "1.0.0").stat().st_size
    assert (size == 90 * 180 * 4) == (codec == "none")


def test_open_om4_reads_both_layouts_alike(tmp_path: Path) -> None:
    sources = []
    for layout in ("flat", "compact"):
        store = build(tmp_path / layout, layout=layout, variables="thermo_dynamic_5+tau_hfds")
        sources.append(
            open_om4(
                store.data,
                store.means,
                store.stds,
                prognostic="thermo_dynamic_5",
                boundary="tau_hfds",
            )
        )
    one, other = sources
    assert len(one.channels) == 24
    np.testing.assert_array_equal(
        one.read(np.arange(3), one.channels), other.read(np.arange(3), one.channels)
    )
    np.testing.assert_array_equal(one.statistics(one.channels), other.statistics(one.channels))


def test_the_coast_and_the_sea_floor_are_real() -> None:
    ocean = Ocean(Grid.gaussian(180, 360), climatology.load(), 0)

    def wet_levels(lat: int, lon: int) -> int:
        return int(ocean.wet[:, lat + 90, lon % 360].sum())

    assert wet_levels(22, 10) == 0  # Sahara
    assert wet_levels(42, 50) == 0  # Caspian
    assert wet_levels(-80, 0) == 0  # Antarctica
    assert wet_levels(55, 3) <= 6  # North Sea, shallower than 100 m
    assert wet_levels(34, 20) >= 14  # Mediterranean
    assert wet_levels(10, -150) >= 17  # tropical Pacific
    assert (ocean.wet[:-1] >= ocean.wet[1:]).all()
    assert ocean.wet.any(axis=(1, 2)).all()
    assert 0.6 < (ocean.wet[0] * np.cos(np.deg2rad(ocean.grid.lat))[:, None]).mean() / 0.6366 < 0.75


def test_temperature_has_the_real_mean_and_season(flat: sample_store.SampleStore) -> None:
    january = field(flat, "thetao_0").mean(axis=0)

    def at(lat: int, lon: int) -> float:
        return float(january[(lat + 90) // 2, lon // 2])

    assert 27 < at(0, 160) < 31  # warm pool
    assert at(0, 260) < at(0, 160) - 2  # cold tongue
    assert 9 < at(41, 180) < 15  # North Pacific, winter
    assert -2 < at(-66, 180) < 2  # Antarctic summer


def test_the_ocean_answers_to_the_weather_of_the_row_before() -> None:
    slow = SlowOcean(climatology.load(), 0)
    states = [slow.step(row, 5.0 * row) for row in range(40)]
    wet = slow.grid.sea_floor(climatology.load().depth)[30:60] > 0
    temperature = np.stack([state.temperature[30:60][wet] for state in states])
    heat = np.stack([state.heat[30:60][wet] for state in states])
    change = np.diff(temperature, axis=0)
    season = np.diff(heat, n=2, axis=0)  # a slow season leaves little in second differences
    second = np.diff(change, n=1, axis=0)
    before = np.corrcoef(np.diff(heat, axis=0)[:-1].ravel(), second.ravel())[0, 1]
    assert before > 0.4
    assert season.std() > 5
    assert 0.1 < temperature.std() < 2.0
    memory = np.corrcoef(temperature[:-1].ravel(), temperature[1:].ravel())[0, 1]
    assert memory > 0.85


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"resolution": "3deg"}, "resolution: got '3deg', expected one of 2deg, 1deg"),
        ({"layout": "tall"}, "layout: got 'tall', expected one of flat, compact"),
        ({"codec": "snappy"}, "codec: got 'snappy', expected one of none, lz4, zstd"),
        ({"rows": 0}, "rows: got 0, expected a whole number"),
        ({"rows": None, "years": -1}, "years: got -1, expected a whole number"),
        ({"rows_per_chunk": 0}, "rows_per_chunk: got 0"),
        ({"seed": -1}, "seed: got -1"),
        ({"variables": "thetao_0,tehtao_1"}, "near names: thetao_1"),
        ({"variables": "thetao_19"}, "got 'thetao_19'"),
        ({"variables": "tau_hfds_hfds_anom"}, "got 'hfds_anomalies'"),
        ({"variables": []}, "got none, expected at least one channel"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(
    tmp_path: Path, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(UsageError) as error:
        build(tmp_path / "store", **options)
    assert text in str(error.value)
    assert not (tmp_path / "store").exists()


def test_an_existing_store_is_replaced_only_on_request(
    flat: sample_store.SampleStore, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    shutil.copytree(flat.data.parent, folder)
    (folder / "notes.txt").write_text("kept")
    with pytest.raises(UsageError, match="is not empty"):
        build(folder)
    store = build(folder, overwrite=True, variables="zos", rows=1)
    assert sorted(path.name for path in folder.iterdir()) == [
        "OM4.zarr",
        "OM4_means.zarr",
        "OM4_stds.zarr",
        "notes.txt",
    ]
    assert not (store.data / "thetao_0").exists()


def test_a_failed_build_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("niskin.sample_store.writer.StoreWriter.write", fail)
    with pytest.raises(OSError, match="disk full"):
        build(tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_every_plane(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    build(tmp_path / "store", rows=20, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (6 * 20, 6 * 20)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_the_command_prints_json_and_refuses_a_second_run(tmp_path: Path) -> None:
    command = ["sample-store", str(tmp_path / "s"), "--resolution", "2deg", "--rows", "2"]
    command += [
        "--variables",
        "thetao_0,thetao_1+hfds",
        "--layout",
        "compact",
        "--codec",
        "zlib",
        "--json",
    ]
    runner = CliRunner()
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["rows"], report["channels"]) == (2, 3)
    assert report["field_bytes"] == 3 * 2 * 90 * 180 * 4
    assert Path(report["data"]).is_dir()
    again = runner.invoke(app, command)
    assert again.exit_code == 2
    assert "is not empty" in again.stderr


def test_what_a_killed_run_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    out = tmp_path / "store"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = socket.gethostname()
    gone = out / f".partial-{host}-{ended.pid}"
    alive = out / f".partial-{host}-{os.getppid()}"
    gone.mkdir(parents=True)
    build(out, variables="zos", rows=1)
    assert not gone.exists()

    alive.mkdir()
    build(out, variables="zos", rows=1, overwrite=True)
    assert alive.exists()  # another run may still write it
