"""Answers of API servers that the tests' own does not give: it is of another version."""

import httpx2
from lightkube import ApiError

from orchestrator.kubernetes.api import Api, _refusal

NEWER = """failed to create typed patch object (default/tiny; ray.io/v1, Kind=RayJob): errors:
  .spec.rayClusterSpec.authOptions: field not declared in schema
  .spec.preRunningDeadlineSeconds: field not declared in schema"""


def test_a_field_that_the_definition_lacks_is_no_fault_that_passes():
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": NEWER}
    request = httpx2.Request("PATCH", "https://server/apis/ray.io/v1/namespaces/default/rayjobs/tiny")
    error = ApiError(response=httpx2.Response(500, json=status, request=request))
    refused = _refusal(error, "RayJob tiny", Api(client=None, namespace="default", server="server", context="tests"))
    lines = [str(problem) for problem in refused.problems]
    assert [line.partition(": the cluster's KubeRay is older")[0] for line in lines] == [
        "RayJob tiny: spec.rayClusterSpec.authOptions",
        "RayJob tiny: spec.preRunningDeadlineSeconds",
    ]
