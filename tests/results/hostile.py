"""A sweep whose names would run a script in a page that does not escape them."""

from dataclasses import replace

from tests.results.builders import SweepFolder, evaluation, failed, trained, two_queries

HOSTILE = """<img src=x onerror="window.attacked=1">"'</td></script><script>window.attacked=1</script>$x^2$"""


class NamedSweep(SweepFolder):
    """A folder whose record has the hostile name."""

    def record(self):
        return replace(super().record(), name=HOSTILE)


def hostile_sweep(store, *, training_data=("attack",), fails=False):
    """Sweep, group, data set, family and a failure's reason are all named HOSTILE."""
    folder = NamedSweep(store=store, evaluations=(evaluation(HOSTILE, HOSTILE),), primary_groups=(HOSTILE,))
    for data in training_data:
        for place, similarity in enumerate(("cosine", "qnorm")):
            scores = two_queries((0.5, 0.5 + place / 10))
            folder.add_trial(trained(similarity, family=HOSTILE, layers=None, data=data), scores)
    if fails:
        folder.plan_trial(trained("dot", family=HOSTILE, layers=None), status=failed(f"reason {HOSTILE}"))
    return folder
