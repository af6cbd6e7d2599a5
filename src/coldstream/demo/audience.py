"""The audience: a client that plays a scenario against a service over HTTP, from the first event that the service lacks."""

import time
from collections.abc import Iterator

from coldstream.client import Client, NewEvent, NewItem, NewUser, Retries
from coldstream.demo.scenario_events import Choice, ItemCame, ItemWent, ScenarioEvent, UserCame

MOST_PUT = 500
"""The largest number of items or users sent in one call."""

PATIENCE = 300.0
"""Seconds that a service may take to get ready, since its first start compiles."""
PAUSE = 0.2
"""Seconds between two attempts to reach the service."""

Record = NewEvent | NewItem | NewUser
"""A record that is sent to the service in batches of one kind."""


def patient_client(host: str, port: int) -> Client:
    """Make a client that retries for `PATIENCE` seconds while the service starts or restarts."""
    retries = Retries(most=round(PATIENCE / PAUSE), first=PAUSE, longest=PAUSE, jitter=lambda: 1.0)
    return Client(f"http://{host}:{port}", timeout=60.0, retries=retries)


class Audience:
    """A sender of a scenario's events at `speed` choices per second, or as fast as the service learns if `speed` is 0."""

    def __init__(self, client: Client, name: str, speed: float) -> None:
        self._client, self._name, self._speed = client, name, speed
        self._most_choices = 100 if not speed else max(1, round(speed / 50))
        self._records = list[Record]()  # all of one kind, to be sent in one call

    def run(self, events: Iterator[ScenarioEvent], most: int | None = None) -> int:
        """Send the events that the service does not have yet, and return the number of choices so far.

        It ends with the scenario, or once the scenario has made `most` choices.
        """
        self._client.ready()
        done = self._client.evaluation().events
        number, start = 0, time.monotonic()
        for event in events:
            if isinstance(event, Choice):
                if most is not None and number >= most:
                    break
                number += 1
            if number > done or (number == done and not isinstance(event, Choice)):
                self._wait(start, number - done)
                self._send(event, number)
        self._flush()
        return number

    def _wait(self, start: float, choices: int) -> None:
        if self._speed:
            time.sleep(max(0.0, start + choices / self._speed - time.monotonic()))

    def _send(self, event: ScenarioEvent, number: int) -> None:
        match event:
            case Choice():
                self._choose(event, number)
            case ItemCame():
                self._add(NewItem(event.item, dict(event.attributes), hidden=event.hidden), MOST_PUT)
            case UserCame():
                self._add(NewUser(event.user, dict(event.attributes)), MOST_PUT)
            case ItemWent():
                self._flush()
                self._client.remove_item(event.item, missing_ok=True)

    def _choose(self, choice: Choice, number: int) -> None:
        user, context, moment = choice.user, dict(choice.context), choice.time
        if self._speed:  # gives the service realistic load; the list has no influence on the choice
            self._client.recommend(user, context=context, time=moment)
        name = f"{self._name}-{number}"
        event = NewEvent(user, choice.item, time=moment, context=context, event_id=name, kind=choice.kind)
        self._add(event, self._most_choices)

    def _add(self, record: Record, most: int) -> None:
        if self._records and type(record) is not type(self._records[0]):
            self._flush()
        self._records.append(record)
        if len(self._records) >= most:
            self._flush()

    def _flush(self) -> None:
        records, self._records = self._records, []
        self._client.learn(one for one in records if isinstance(one, NewEvent))
        self._client.put_items(one for one in records if isinstance(one, NewItem))
        self._client.put_users(one for one in records if isinstance(one, NewUser))
