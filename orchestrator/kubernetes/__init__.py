"""A sweep file as a RayJob of a Kubernetes cluster with KubeRay."""
