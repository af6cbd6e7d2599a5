"""Whether users read what they wrote: an event is acknowledged, and the next request has to know of it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from served import Served

ITEMS = 60


def put_items(server: Served) -> None:
    """Items to choose from."""
    items = [{"id": f"i{n}", "attributes": {"genre": [f"g{n % 5}"]}} for n in range(ITEMS)]
    server.client().done("POST", "/items", items)


def unread(server: Served, trials: int, customers: int, seed: int = 0) -> list[str]:
    """What users did not find of what they had written, in so many trials by several customers at once."""

    def customer(number: int) -> list[str]:
        rng, client, missed = np.random.default_rng([seed, number]), server.client(), list[str]()
        for trial in range(trials // customers):
            user, item = f"{seed}-{number}-{trial // 20}", f"i{rng.integers(ITEMS)}"
            others = [{"user": f"other{rng.integers(50)}", "item": f"i{rng.integers(ITEMS)}"} for _ in range(4)]
            client.done("POST", "/events", [*others, {"user": user, "item": item}])
            asked = {"user": user, "n": ITEMS, "exclude_seen": True}
            answer = client.done("POST", "/recommend", asked)
            if item in [one["item"] for one in answer["items"]]:
                missed.append(f"{user} {item}")
        return missed

    with ThreadPoolExecutor(customers) as pool:
        return [one for found in pool.map(customer, range(customers)) for one in found]
