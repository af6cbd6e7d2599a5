"""The version of the learning rule, which determines the parameters that a log leads to.

Replicas hold identical bits because they learn the same lines by the same rule. A code change that alters the effect of a
line on the parameters, even in one bit, must raise `LEARNING_RULE`. Every log states the rule by which it is learned.
"""

from coldstream.errors import ColdstreamError

LEARNING_RULE = 3
"""The version of this release. Since 3, repeated choices of an item by one user count less each time.

This holds for trends, neighbours and counts of choices.
"""


class OtherRule(ColdstreamError):
    """Raised for a log whose learning rule is not the one of this release."""


def check_rule(rule: int) -> None:
    """Raise `OtherRule` unless a log's rule is `LEARNING_RULE`."""
    if rule != LEARNING_RULE:
        message = f"the log is learned by rule {rule}, and this release learns by rule {LEARNING_RULE}: bits would differ"
        remedy = "let all replicas be of one release" if rule < LEARNING_RULE else "use the release that changed the rule"
        raise OtherRule(f"{message}; {remedy} (docs/guides/production.md, upgrades)")
