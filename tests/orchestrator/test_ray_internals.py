"""What is used of Ray's inside is there, and what is not is told before anything starts."""

import pytest

from orchestrator.ray_internals import USED, check_internals
from search_spaces.problems import InputError


def test_this_ray_has_all_that_is_used_of_its_inside():
    check_internals()


@pytest.mark.parametrize(
    "gone", [("ray._private.elsewhere", "state"), ("ray._private.state", "state.nothing"), ("ray.core", "a.b")]
)
def test_what_another_ray_lacks_is_told(gone):
    with pytest.raises(
        InputError, match=r"ray: version \S+ lacks " + ".".join(gone).replace(".", r"\.") + ", by which"
    ):
        check_internals((*USED, gone))
