"""Warming: compiles the kernels that several learners need before a request waits for them."""

from coldstream.cluster.learners import LocalLearners
from coldstream.cluster.team import LearnerTeam
from coldstream.config import Hyperparameters
from coldstream.features.schema import Schema
from coldstream.runtime.records import Interaction
from coldstream.runtime.warming import example_recommender


def warm_merging(schema: Schema, hyperparameters: Hyperparameters) -> None:
    """Compile the kernels that several learners of one log, and the process in front of them, need in addition."""
    front = example_recommender(schema, hyperparameters)
    team = LearnerTeam(front, LocalLearners(front.state(), 2))
    events = [Interaction(f"user {number}", f"item {number % 3}", 0.0) for number in range(8)]
    lines = list(enumerate(events, front.position + 1))
    team.send(lines)
    front.engine.replay_observed([(position, event.event()) for position, event in lines])
    team.merge()
