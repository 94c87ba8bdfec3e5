"""The command line: planning a sweep, placing its trials on Ray, tracking them in MLflow."""
