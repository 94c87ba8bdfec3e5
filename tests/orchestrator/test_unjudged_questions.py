"""Questions without judgements in a group of rankings: one problem, and nothing is fetched to find it."""

import pytest

from orchestrator.resolve import resolve
from search_spaces.problems import InputError


def test_triviaqa_in_a_group_is_one_problem_where_it_is_not_here(make_sweep, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    sweep = make_sweep(evaluation={"groups": {"in_domain": ["zoo"], "open": ["triviaqa"]}})
    with pytest.raises(InputError) as raised:
        resolve(sweep.file)
    [problem] = raised.value.problems
    assert problem.key == "evaluation.groups.open"
    assert "'triviaqa' has questions with answers and no judgements" in problem.message
