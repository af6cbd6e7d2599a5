"""The version of the learning rule: what a log leads to.

Replicas hold the same bits because they learn the same lines by the same rule. So whoever changes what a line of the log
does to the parameters, in any bit, raises the number. The log says by which rule it is learned.
"""

from coldstream.errors import ColdstreamError

LEARNING_RULE = 3
"""3: a user who chooses an item again and again counts less each time in trends, neighbours and choices."""


class OtherRule(ColdstreamError):
    """A log that is learned by another rule than this release's."""


def check_rule(rule: int) -> None:
    """Refuse to go on with a log that is learned by another rule."""
    if rule != LEARNING_RULE:
        message = f"the log is learned by rule {rule}, and this release learns by rule {LEARNING_RULE}: bits would differ"
        remedy = "let all replicas be of one release" if rule < LEARNING_RULE else "use the release that changed the rule"
        raise OtherRule(f"{message}; {remedy} (docs/guides/production.md, upgrades)")
