"""Boards and rules are in the wheel, also in one made from the source distribution."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WANTED = sorted(
    str(path.relative_to(ROOT / "dashboards"))
    for pattern in ("*.md", "boards/*.json", "rules/*.yml")
    for path in (ROOT / "dashboards").glob(pattern)
)


def build(kind, source, folder):
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [made] = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Made as installers make it from a source distribution."""
    source = build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))
    unpacked = tmp_path_factory.mktemp("source")
    with tarfile.open(source) as archive:
        archive.extractall(unpacked, filter="data")
    [root] = unpacked.iterdir()
    return build("wheel", root, tmp_path_factory.mktemp("wheel"))


def export(path, folder):
    ended = subprocess.run(
        [sys.executable, "-m", "toolmend", "dashboards", "export", str(folder)],
        cwd=folder,
        # Its copy of the package is none that coverage should count.
        env={
            **{name: value for name, value in os.environ.items() if "COVERAGE" not in name},
            "PYTHONPATH": str(path),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_an_unpacked_wheel_exports_them(wheel, tmp_path):
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (tmp_path / "out").mkdir()
    found = export(site, tmp_path / "out")

    assert sorted(found) == WANTED
    assert all(text == (ROOT / "dashboards" / name).read_bytes() for name, text in found.items())


def test_they_are_found_without_being_unpacked(wheel, tmp_path):
    assert sorted(export(wheel, tmp_path)) == WANTED


def test_the_generator_does_not_go_into_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if not name.startswith(("toolmend/", "toolmend-"))]
    assert not [name for name in names if "generate" in name]
