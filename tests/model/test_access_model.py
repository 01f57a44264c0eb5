"""What a token is for: paths, names of workers, pools."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from noetl.errors import UsageError
from noetl.model.access import ApiToken, TokenRequest, allows_path

SEGMENT = st.text(
    st.characters(min_codepoint=33, max_codepoint=1000, exclude_characters="/*", codec="utf-8"), min_size=1, max_size=5
)
PATH = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)


def made(**more: object) -> ApiToken:
    role = "worker" if {"worker", "pools"} & more.keys() else "viewer"
    return TokenRequest("ann", role, **more).make_token("hash", "hint", "now", 0.0)  # type: ignore[arg-type]


@given(PATH, PATH)
def test_a_prefix_allows_what_is_below_it_and_nothing_beside_it(prefix: str, path: str) -> None:
    assert allows_path([f"{prefix}/*"], f"{prefix}/{path}")
    assert not allows_path([f"{prefix}/*"], prefix)
    assert not allows_path([f"{prefix}/*"], f"{prefix}x/{path}")
    assert allows_path([f"{prefix}/*"], path) == path.startswith(f"{prefix}/")


@given(PATH, PATH)
def test_a_path_allows_itself_alone(one: str, other: str) -> None:
    assert allows_path([one], other) == (one == other)
    assert not allows_path([one], f"{one}/{other}")


@given(st.lists(PATH, min_size=1, max_size=4), PATH)
def test_several_paths_allow_what_each_of_them_does(paths: list[str], path: str) -> None:
    assert allows_path(paths, path) == any(allows_path([one], path) for one in paths)


def test_no_paths_are_all() -> None:
    assert allows_path([], "anything")
    assert made(paths=("*", "crm/*")).paths == ()


@pytest.mark.parametrize(
    ("worker", "fits", "others"),
    [
        ("w1", ["w1", "w1-77-ab"], ["w10", "w2", "", "x-w1"]),
        ("gpu*", ["gpu", "gpu-1", "gpu7"], ["cpu", "Gpu"]),
        (None, ["anything"], []),
    ],
)
def test_a_workers_token_is_for_workers_of_its_name(worker: str | None, fits: list[str], others: list[str]) -> None:
    token = TokenRequest("t", "worker", worker=worker).make_token("", "", "", 0.0)
    assert [name for name in [*fits, *others] if token.may_be(name)] == fits


@pytest.mark.parametrize(
    ("pools", "foreign"), [((), ["gpu"]), (("gpu",), ["default"]), (("gpu", "default"), []), (("*",), [])]
)
def test_a_workers_token_is_for_the_default_pool_unless_it_names_others(
    pools: tuple[str, ...], foreign: list[str]
) -> None:
    assert made(pools=pools, worker="w").foreign_pools(["default", "gpu"]) == foreign


def test_a_token_of_another_role_is_for_no_worker() -> None:
    with pytest.raises(UsageError, match="only a token with the role `worker`"):
        TokenRequest("t", "viewer", pools=("gpu",)).make_token("", "", "", 0.0)
