"""The environments of other projects' clients are made when they can be, and say in a sentence when they cannot."""

import json
import time
from pathlib import Path

import pytest

from tools.peer_environment import (
    APACHE_CLIENT,
    PYTHON,
    PeerUnavailableError,
    apache_python,
    cache_folder,
    python_of,
)

pytestmark = pytest.mark.peer


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without anything in it, on a machine whose package index does not answer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    return cache_folder()


def test_without_an_index_and_a_cache_the_reason_is_one_sentence(empty_cache: Path) -> None:
    with pytest.raises(
        PeerUnavailableError, match=rf"index versions {APACHE_CLIENT}` failed: ERROR"
    ) as unavailable:
        apache_python()
    assert "\n" not in str(unavailable.value)
    assert [path.name for path in empty_cache.iterdir()] == [f"pip-{PYTHON}"]


def test_without_an_index_the_newest_environment_that_is_there_serves(empty_cache: Path) -> None:
    (empty_cache / f"pip-{PYTHON}").mkdir(parents=True)  # an empty one, which has no index
    for version in ("5.1.1", "5.1.2"):
        (empty_cache / f"{APACHE_CLIENT}-{version}-{PYTHON}").mkdir()
    assert apache_python() == python_of(empty_cache / f"{APACHE_CLIENT}-5.1.2-{PYTHON}")


def test_an_answer_of_the_index_is_kept_for_a_day(empty_cache: Path) -> None:
    environment = empty_cache / f"{APACHE_CLIENT}-9.9.9-{PYTHON}"
    environment.mkdir(parents=True)
    note = empty_cache / f"newest-{PYTHON}.json"
    note.write_text(json.dumps({"asked": time.time() - 3600, "version": "9.9.9"}), encoding="utf-8")
    assert apache_python() == python_of(environment)
