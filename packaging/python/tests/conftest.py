"""Recordings that punctual exported, and the program for the tests that need it."""

import os
import shutil
from pathlib import Path

import pytest

import punctual_pandas as pp

DATA = Path(__file__).parent / "data"


@pytest.fixture
def idle():
    return pp.read(DATA / "idle.json")


@pytest.fixture
def loaded():
    return pp.read(DATA / "loaded.json")


@pytest.fixture
def imported():
    """An import of a cyclictest histogram, which lacks many facts."""
    return pp.read(DATA / "imported.json")


@pytest.fixture(scope="session")
def program():
    """The program, from PUNCTUAL_PROGRAM or PATH."""
    found = shutil.which(os.environ.get("PUNCTUAL_PROGRAM", "punctual"))
    if not found:
        pytest.skip("punctual is not installed: set PUNCTUAL_PROGRAM")
    return found
