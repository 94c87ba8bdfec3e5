"""Small sweep files with a cluster of their own, for tests of what is rendered."""

from orchestrator.kubernetes.render import rendered

SWEEP = """
name: small
axes:
  task: contrastive
  training_data: attack
  family: minilm
  similarity: [cosine, qnorm]
  init_regime: finetune
  seed: 0
  scale: fixed(20)
training: {steps: 2, global_batch: 4, learning_rate: 1e-4}
evaluation: {groups: {in_domain: attack}}
"""
CLUSTER = """
cluster:
  image: registry.example/densesweep:0.1.0
  storage: {root: s3://bucket/sweeps}
  workers:
    cpu: {cpus: 4, memory: 16GiB, max: 2}
"""


def write(folder, *, sweep=SWEEP, cluster=CLUSTER, name="small.yaml"):
    """A sweep file of both parts."""
    path = folder / name
    path.write_text(sweep + cluster)
    return path


def small_job(folder, namespace="densesweep"):
    """The rendered RayJob of the small sweep."""
    cluster = f"{CLUSTER}  namespace: {namespace}\n"
    return rendered(write(folder, cluster=cluster))[-1]
