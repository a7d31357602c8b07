"""Make the climatology that `niskin sample-store` builds on, from the unpacked Debian package.

    apt-get download ferret-datasets && dpkg -x ferret-datasets_*.deb unpacked
    python scripts/make_sample_climatology.py unpacked python/niskin/sample_store/data

Reads the NetCDF 3 files of ``usr/share/ferret-vis/data`` (xarray's scipy engine, so scipy must be
installed) and writes ``climatology.zarr.zip``: a Zarr format 2 group in one zip file, int16 with
``scale_factor``. Every field is filled under land and below the sea floor, so that it can be
interpolated to any grid and cut by the bathymetry there. PROVENANCE.md beside it says what each
array is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import xarray as xr
import zarr
from numcodecs import Blosc, Delta
from numpy.typing import NDArray

Field = NDArray[np.float64]

# Depths of the 19 levels of the stores, metres.
LEVELS = np.array(
    [
        *(2.5, 10, 22.5, 40, 65, 105, 165, 250, 375, 550, 775, 1050),
        *(1400, 1850, 2400, 3100, 4000, 5000, 6000),
    ]
)
SEASONAL_LEVELS = 9  # deeper than 375 m the monthly analysis holds more noise than season
WIND_MODES = 16
# Sea-level depressions that no strait joins to the ocean, but that are too large to go by size.
CASPIAN = (36.0, 48.0, 45.0, 56.0)  # south, north, west, east
SMALLEST_BASIN = 300  # cells of 0.25 degrees


def open_file(folder: Path, name: str) -> xr.Dataset:
    """One of the package's data files."""
    path = folder / "usr" / "share" / "ferret-vis" / "data" / name
    return xr.open_dataset(path, engine="scipy", decode_times=False)


def eastward_from_zero(values: Field, lon: Field) -> tuple[Field, Field]:
    """Rotate the last axis so that longitudes run from 0 to 360."""
    order = np.argsort(lon % 360.0, kind="stable")
    return values[..., order], (lon % 360.0)[order]


def fill_holes(values: Field, passes: int = 40) -> Field:
    """Replace NaN by smooth values taken from the neighbourhood; periodic in longitude.

    Push-pull: average to half the resolution until no hole is left, then fill downwards,
    smoothing the filled cells a little at every size.
    """
    hole = np.isnan(values)
    if not hole.any():
        return values
    ny, nx = values.shape
    if ny % 2 or nx % 2 or min(ny, nx) < 4:
        filled = np.where(hole, np.nanmean(values), values)
    else:
        boxes = values.reshape(ny // 2, 2, nx // 2, 2)
        known = np.isfinite(boxes).sum(axis=(1, 3))
        total = np.nansum(boxes, axis=(1, 3))
        half = np.where(known > 0, total / np.maximum(known, 1), np.nan)
        coarse = fill_holes(half, passes)
        filled = np.where(hole, coarse.repeat(2, axis=0).repeat(2, axis=1), values)
    for _ in range(passes):
        north = np.concatenate([filled[1:], filled[-1:]])
        south = np.concatenate([filled[:1], filled[:-1]])
        mean = (north + south + np.roll(filled, 1, -1) + np.roll(filled, -1, -1)) / 4
        filled = np.where(hole, mean, filled)
    return filled


def smooth(values: Field, passes: int) -> Field:
    """Binomial smoothing over the last two axes; periodic in longitude."""
    for _ in range(passes):
        values = (np.roll(values, 1, -1) + 2 * values + np.roll(values, -1, -1)) / 4
        north = np.concatenate([values[..., 1:, :], values[..., -1:, :]], axis=-2)
        south = np.concatenate([values[..., :1, :], values[..., :-1, :]], axis=-2)
        values = (north + 2 * values + south) / 4
    return values


def interpolation(source: Field, target: Field, *, period: float | None) -> Field:
    """Matrix (target, source) of linear interpolation; constant beyond the ends, or periodic."""
    if period is not None:
        source = np.concatenate([source[-1:] - period, source, source[:1] + period])
    right = np.clip(np.searchsorted(source, target), 1, len(source) - 1)
    weight = (target - source[right - 1]) / (source[right] - source[right - 1])
    weight = np.clip(weight, 0.0, 1.0)
    matrix = np.zeros((len(target), len(source)))
    rows = np.arange(len(target))
    matrix[rows, right - 1] = 1.0 - weight
    matrix[rows, right] += weight
    if period is not None:
        matrix[:, -2] += matrix[:, 0]
        matrix[:, 1] += matrix[:, -1]
        matrix = matrix[:, 1:-1]
    return matrix


def to_two_degrees(values: Field, lat: Field, lon: Field) -> Field:
    """Interpolate (..., lat, lon) to the cell centres of a 2 degree grid."""
    values, lon = eastward_from_zero(values, lon)
    by_lat = interpolation(lat, np.arange(-89.0, 90.0, 2.0), period=None)
    by_lon = interpolation(lon, np.arange(1.0, 360.0, 2.0), period=360.0)
    result: Field = by_lat @ values @ by_lon.T
    return result


def harmonics(months: Field) -> Field:
    """(12, ...) monthly means to (5, ...): mean, cos, sin, cos 2, sin 2 of the year's phase.

    The amplitudes are raised by what averaging over a month takes away.
    """
    phase = 2 * np.pi * (np.arange(12) + 0.5) / 12
    parts = [months.mean(axis=0)]
    for order in (1, 2):
        damping = np.sinc(order / 12)
        for wave in (np.cos(order * phase), np.sin(order * phase)):
            parts.append(np.tensordot(wave, months, axes=1) / 6 / damping)
    return np.stack(parts)


def ocean_depth(folder: Path) -> NDArray[np.int16]:
    """Depth of the sea floor in metres at 0.25 degrees, 0 on land and in lakes."""
    relief = open_file(folder, "etopo5.cdf")["ROSE"].values.astype(np.float64)  # nodes, 5 minutes
    relief = np.concatenate([relief, relief[:, :1]], axis=1)
    nodes = [relief[j : j + 2158 : 3, i : i + 4318 : 3] for j in range(4) for i in range(4)]
    cells = np.stack(nodes)
    below = cells < 0
    depth = np.where(below, -cells, 0).sum(axis=0) / np.maximum(below.sum(axis=0), 1)
    depth = np.where(below.sum(axis=0) >= 8, np.maximum(depth, 1), 0)
    return keep_ocean(np.rint(depth).astype(np.int16))


def keep_ocean(depth: NDArray[np.int16]) -> NDArray[np.int16]:
    """Dry the Caspian and every small basin that is not joined to the ocean."""
    south, north, west, east = (round(4 * edge) for edge in CASPIAN)
    depth[360 + south : 360 + north, west:east] = 0
    wet = depth > 0
    label = np.where(wet, np.arange(1, depth.size + 1).reshape(depth.shape), 0)
    while True:
        before = label.copy()
        for axis, shift in ((1, 1), (1, -1), (0, 1), (0, -1)):
            moved = np.roll(label, shift, axis)
            if axis == 0:  # the poles do not touch each other
                moved[0 if shift == 1 else -1] = 0
            label = np.where(wet, np.maximum(label, moved), 0)
        # Jump along the labels: a cell takes the label of the cell that its label names.
        flat = label.ravel()
        root = np.concatenate([[0], flat])
        label = root[label]
        if np.array_equal(before, label):
            break
    names, counts = np.unique(label, return_counts=True)
    small = names[(counts < SMALLEST_BASIN) & (names > 0)]
    return np.where(np.isin(label, small), 0, depth).astype(np.int16)


def hydrography(folder: Path, name: str) -> Field:
    """Annual mean (19, 180, 360) at the depths of LEVELS."""
    data = open_file(folder, "levitus_climatology.cdf")
    values, _ = eastward_from_zero(data[name].values.astype(np.float64), data["XAXLEVITR"].values)
    filled = np.stack([fill_holes(plane) for plane in values])
    by_depth = interpolation(data["ZAXLEVITR"].values, LEVELS, period=None)
    return np.tensordot(by_depth, filled, axes=1)


def temperature_season(folder: Path) -> Field:
    """Annual and semi-annual harmonics (4, SEASONAL_LEVELS, 90, 180) of temperature."""
    data = open_file(folder, "ocean_atlas_subset.nc")
    parts = harmonics(data["TEMP"].values.astype(np.float64))[1:]
    by_depth = interpolation(data["ZAXLEVIT19"].values, LEVELS[:SEASONAL_LEVELS], period=None)
    # Fades out to nothing at the first level without a season.
    fade = np.clip((550 - LEVELS[:SEASONAL_LEVELS]) / 400, 0, 1)
    result = np.empty((4, SEASONAL_LEVELS, 90, 180))
    for i, part in enumerate(parts):
        filled = smooth(np.stack([fill_holes(plane) for plane in part]), 3)
        levels = np.tensordot(by_depth * fade[:, None], filled, axes=1)
        result[i] = to_two_degrees(levels, data["YAX_SUBSET"].values, data["XAX_SUBSET"].values)
    return result


def heat_flux(folder: Path) -> Field:
    """Net downward heat flux, harmonics (5, 90, 180), W m-2.

    Seen by ships from about 60 S to 70 N. Elsewhere the season comes from the heat content of the
    upper 250 m of the temperature analysis and the annual mean is nothing.
    """
    data = open_file(folder, "esku_heat_budget.cdf")
    months = data["FDH"].values.astype(np.float64)
    seen = np.isfinite(months).all(axis=0)
    # Towards the ice edge a few reports stand for a whole cell, and swing by hundreds of watts.
    seen &= (np.abs(data["ESKUY"].values) < 62)[:, None]
    parts = harmonics(np.where(seen, months, np.nan))
    filled = smooth(np.stack([fill_holes(plane) for plane in parts]), 1)
    fluxes = to_two_degrees(filled, data["ESKUY"].values, data["ESKUX"].values)
    trust = to_two_degrees(
        smooth(seen.astype(np.float64), 2), data["ESKUY"].values, data["ESKUX"].values
    )
    # Sea ice insulates: where the mean surface is near freezing, little comes through.
    surface = hydrography(folder, "TEMP")[0].reshape(90, 2, 180, 2).mean(axis=(1, 3))
    free = smooth(np.clip((surface + 1.8) / 3, 0, 1), 2)
    return (fluxes * trust + storage_season(folder) * (1 - trust)) * free


def storage_season(folder: Path) -> Field:
    """The flux (5, 90, 180) that the season of the upper 250 m would need by itself, W m-2."""
    thickness = np.array([5, 10, 15, 20, 30, 50, 70, 100])
    content = 4.1e6 * np.tensordot(temperature_season(folder)[:, :8], thickness, axes=(1, 0))
    yearly = 2 * np.pi / (365.25 * 86400)
    flux = np.zeros((5, 90, 180))
    for order, (cosine, sine) in ((1, (0, 1)), (2, (2, 3))):
        flux[1 + cosine] = order * yearly * content[sine]
        flux[1 + sine] = -order * yearly * content[cosine]
    # In the Arctic the analysis is a guess between the coasts.
    arctic = np.clip((74 - np.arange(-89.0, 90.0, 2.0)) / 8, 0, 1)[:, None]
    return smooth(flux * arctic, 2)


def wind_speed(folder: Path) -> Field:
    """Scalar wind speed, harmonics (5, 90, 180), m/s."""
    data = open_file(folder, "coads_climatology.cdf")
    parts = harmonics(data["WSPD"].values.astype(np.float64))
    filled = smooth(np.stack([fill_holes(plane) for plane in parts]), 4)
    return to_two_degrees(filled, data["COADSY"].values, data["COADSX"].values)


def winds(folder: Path, ocean: NDArray[np.bool_]) -> tuple[Field, Field, Field]:
    """Mean winds (2, 5, 90, 180), wind modes (2, modes, 90, 180) in m/s, their monthly memory.

    The modes are the leading empirical orthogonal functions over the ocean of what is left of
    eleven years of monthly winds without their season and trend, each as large as one standard
    deviation of its series.
    """
    data = open_file(folder, "monthly_navy_winds.cdf")
    lat, lon = data["FNOCY"].values, data["FNOCX"].values
    months = np.stack(
        [
            to_two_degrees(data[name].values.astype(np.float64), lat, lon)
            for name in ("UWND", "VWND")
        ]
    )
    years: Field = months.reshape(2, -1, 12, 90, 180)
    season = years.mean(axis=1)
    anomaly: Field = (years - season[:, None]).reshape(months.shape)
    when = np.arange(months.shape[1]) - (months.shape[1] - 1) / 2
    trend = np.tensordot(when, anomaly, axes=(0, 1)) / (when @ when)
    anomaly -= when[None, :, None, None] * trend[:, None]
    weight = np.sqrt(np.cos(np.deg2rad(np.arange(-89.0, 90.0, 2.0))))[:, None] * ocean
    weighted = (anomaly * weight).transpose(1, 0, 2, 3).reshape(len(when), -1)
    left, _, _ = np.linalg.svd(weighted, full_matrices=False)
    series = left[:, :WIND_MODES] * np.sqrt(len(when))  # unit variance
    modes = np.tensordot(series, anomaly, axes=(0, 1)) / len(when)
    memory = (series[1:] * series[:-1]).mean(axis=0)
    mean = np.stack([harmonics(component) for component in season])
    return mean, modes.transpose(1, 0, 2, 3), memory


def add(
    group: zarr.Group, name: str, values: Field, scale: float, units: str, long_name: str
) -> None:
    """Write an array, packed to int16 in steps of `scale`."""
    packed = np.rint(values / scale)
    assert np.abs(packed).max() < 32767, name
    array = group.create_array(
        name,
        shape=values.shape,
        chunks=values.shape,
        dtype="<i2",
        fill_value=None,
        filters=[Delta(dtype="<i2")],
        compressors=Blosc(cname="zstd", clevel=9, shuffle=Blosc.BITSHUFFLE),
        attributes={"units": units, "long_name": long_name, "scale_factor": scale},
    )
    array[...] = packed.astype(np.int16)


def main() -> None:
    """Read the files, write the group."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("unpacked", type=Path, help="folder that dpkg -x filled")
    parser.add_argument("out", type=Path, help="folder to write climatology.zarr.zip into")
    args = parser.parse_args()
    folder: Path = args.unpacked
    depth = ocean_depth(folder)
    ocean = (depth > 0).reshape(90, 8, 180, 8).mean(axis=(1, 3)) >= 0.5
    mean_winds, modes, memory = winds(folder, ocean)
    target = args.out / "climatology.zarr.zip"
    target.unlink(missing_ok=True)
    with zarr.storage.ZipStore(target, mode="w") as store:
        group = zarr.create_group(store, zarr_format=2)
        add(group, "depth", depth.astype(np.float64), 1.0, "m", "depth of the sea floor")
        for name, source, units in (("temperature", "TEMP", "degC"), ("salinity", "SALT", "psu")):
            values = hydrography(folder, source)
            add(group, name, values, 0.002, units, f"annual mean {name}")
        season = temperature_season(folder)
        add(group, "temperature_season", season, 0.005, "degC", "harmonics of temperature")
        add(group, "heat_flux", heat_flux(folder), 0.1, "W m-2", "net downward heat flux")
        add(group, "wind_speed", wind_speed(folder), 0.01, "m s-1", "scalar wind speed")
        add(group, "wind", mean_winds, 0.01, "m s-1", "mean wind, eastward and northward")
        add(group, "wind_modes", modes, 0.01, "m s-1", "modes of monthly wind anomalies")
        add(group, "wind_mode_memory", memory, 0.001, "1", "lag-one-month autocorrelation")
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
