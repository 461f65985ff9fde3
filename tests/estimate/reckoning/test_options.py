from __future__ import annotations

import pytest

from jupyter_gpufit.errors import BadSetting
from jupyter_gpufit.estimate.reckoning.options import NO_LIMIT, options_of, parse_options
from jupyter_gpufit.units import MiB


def test_reads_what_the_documentation_shows() -> None:
    options = parse_options("max_split_size_mb:128, garbage_collection_threshold:0.8,expandable_segments:True")

    assert options.max_split_size == 128 * MiB
    assert options.garbage_collection_threshold == 0.8
    assert options.expandable_segments


def test_takes_the_new_name_of_the_variable_before_the_old() -> None:
    env = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}

    assert options_of(env).expandable_segments
    assert options_of(env).max_split_size == NO_LIMIT
    assert options_of({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}).max_split_size == 64 * MiB
    assert options_of({}).max_split_size == NO_LIMIT


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb:10",
        "max_split_size_mb",
        "garbage_collection_threshold:2",
        "expandable_segments:yes",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:[100:2]",
    ],
)
def test_refuses_what_torch_refuses(text: str) -> None:
    with pytest.raises(BadSetting, match=text.partition(":")[0]):
        parse_options(text)


def test_names_what_it_has_never_heard_of() -> None:
    assert parse_options("backend:cudaMallocAsync,zeal:9").unknown == ("backend:cudaMallocAsync", "zeal:9")
    assert parse_options("pinned_num_register_threads:8").unknown == ()
