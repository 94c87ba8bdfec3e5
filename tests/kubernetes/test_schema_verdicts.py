"""A real API server and the checks without one accept and refuse the same manifests."""

import pytest
from api_server import ApiServer
from crds import schema_faults
from labelled_manifests import SCHEMA
from sweeps_on_clusters import small_job

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("labelled", SCHEMA, ids=lambda labelled: labelled.name[:60])
def test_a_real_server_agrees_with_the_schema_check(server: ApiServer, tmp_path, labelled):
    manifest = labelled.manifest(small_job(tmp_path, namespace="default"))
    answer = server.request("POST", "/apis/ray.io/v1/namespaces/default/rayjobs?dryRun=All", manifest)
    is_refused = answer["kind"] == "Status"
    assert not is_refused or answer["code"] in (400, 422), answer
    assert is_refused == bool(schema_faults(manifest)), answer
    assert is_refused == labelled.refused, answer
