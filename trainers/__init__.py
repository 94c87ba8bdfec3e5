"""One trial: data, encoder, training, encoding, exact search, measures, and the probes before training."""
