"""Reads metrics in the text format from standard input, checks them, and prints each sample in a line."""

import sys

from prometheus_client.parser import text_string_to_metric_families


def check_histogram(family):
    """Buckets grow, and the last of them has all."""
    groups = {}
    for sample in family.samples:
        labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        groups.setdefault(labels, []).append(sample)
    for labels, samples in groups.items():
        buckets = [(float(s.labels["le"]), s.value) for s in samples if s.name.endswith("_bucket")]
        count = next(s.value for s in samples if s.name.endswith("_count"))
        assert buckets == sorted(buckets) and buckets[-1] == (float("inf"), count), (family.name, labels)
        values = [value for _, value in buckets]
        assert values == sorted(values), (family.name, labels)


families = list(text_string_to_metric_families(sys.stdin.read()))
names = [family.name for family in families]
assert len(names) == len(set(names)), names
for family in families:
    assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
    if family.type == "histogram":
        check_histogram(family)
    for sample in family.samples:
        labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
        print(f"{sample.name}{{{labels}}} {sample.value}")
