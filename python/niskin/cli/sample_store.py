"""`niskin sample-store`: writes an OM4-shaped store made from real climatology."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["sample_store"]


def sample_store(
    out: Annotated[Path, typer.Argument(help="Folder for OM4.zarr and its means and stds.")],
    resolution: Annotated[str, typer.Option(help="2deg, 1deg, 0.5deg or 0.25deg.")] = "1deg",
    years: Annotated[int, typer.Option(help="Years of 73 five-day means.")] = 1,
    rows: Annotated[
        int | None, typer.Option(help="Number of five-day means, in place of whole years.")
    ] = None,
    layout: Annotated[
        str, typer.Option(help="flat, compact (lev, time, y, x) or compact-time-first.")
    ] = "flat",
    codec: Annotated[
        str,
        typer.Option(
            help="none; lz4 or zstd (blosc, level 5, shuffle); plain-lz4, plain-zstd, zlib, gzip."
        ),
    ] = "lz4",
    variables: Annotated[
        str, typer.Option(help="Keys of variable sets joined by +, or channels joined by commas.")
    ] = "thermo_dynamic_all+tau_hfds",
    start_year: Annotated[int, typer.Option(help="Year of the first row, 3 January.")] = 1958,
    seed: Annotated[int, typer.Option(help="Of the made weather and eddies.")] = 0,
    rows_per_chunk: Annotated[int, typer.Option(help="Rows in one chunk.")] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the stores in OUT.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON instead of text.")
    ] = False,
) -> None:
    """Writes an OM4-shaped Zarr store, with its means and stds, into the folder OUT.

    Mean state, seasons, coast and sea floor are real climatologies; weather and eddies are made.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from niskin import sample_store as stores

    bar = Progress(
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        "planes",
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not Console(stderr=True).is_terminal,
    )
    with bar:
        task = bar.add_task(f"{resolution} {layout} {codec}", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        store = stores.build(
            out,
            resolution=resolution,
            years=years,
            rows=rows,
            layout=layout,
            codec=codec,
            variables=variables,
            start_year=start_year,
            seed=seed,
            rows_per_chunk=rows_per_chunk,
            overwrite=overwrite,
            progress=show,
        )
    ratio = store.field_bytes / store.stored_bytes
    if as_json:
        result = {
            "data": str(store.data),
            "means": str(store.means),
            "stds": str(store.stds),
            "rows": store.rows,
            "channels": len(store.channels),
            "field_bytes": store.field_bytes,
            "stored_bytes": store.stored_bytes,
            "compression_ratio": round(ratio, 3),
            "seconds": round(store.seconds, 3),
        }
        typer.echo(json.dumps(result, indent=2))
        return
    gigabytes = store.field_bytes / 1e9
    typer.echo(f"{store.data}: {len(store.channels)} channels, {store.rows} rows")
    typer.echo(
        f"{gigabytes:.2f} GB of fields in {store.stored_bytes / 1e9:.2f} GB ({ratio:.2f} : 1), "
        f"{store.seconds:.1f} s, {gigabytes / store.seconds:.2f} GB/s"
    )
    typer.echo(f"statistics: {store.means}, {store.stds}")
