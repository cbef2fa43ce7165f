"""What several test files share."""

import gc
import warnings

import pytest
from amaranth.hdl import UnusedElaboratable


@pytest.fixture
def refuses():
    """Asserts that calling ``build`` raises a ValueError whose text matches."""

    def refuses(match, build):
        # A component that was refused is never elaborated, which Amaranth would report once it is collected.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnusedElaboratable)
            with pytest.raises(ValueError, match=match):
                build()
            gc.collect()

    return refuses
