"""Fisher information of the similarities before any training, and the probes that compute it."""
