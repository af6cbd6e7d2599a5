"""Watch a recommender learn, be surprised by a change of taste in mid-stream, and recover.

The stream is the paper's: clicks on five ads by people who never come back. Every click is first predicted, then learned,
by coldstream and by two baselines: the most clicked ad, and the most clicked of the last hundred.
"""

from collections import Counter, deque

from coldstream import Category, Event, Id, Number, Recommender, Schema
from coldstream.events.simulate import click_items, clicks

SEED, WINDOW, IMPRESSIONS = 7, 200, 1_000_000
METHODS = ("coldstream", "popularity", "recent popularity")

schema = Schema(
    user=(),  # nobody comes twice: what is known of a visitor comes with the click
    item=[Id(), Category("category")],
    context=[Number("age"), Category("sex"), Category("state")],
    exclude_seen=False,
)


def main() -> None:
    """Test, then learn, and draw the share of clicks that were predicted."""
    recommender = Recommender(schema, preset="default", seed=SEED)
    for item, attributes in click_items().items():
        recommender.put_item(item, attributes)
    ever: Counter[str] = Counter(dict.fromkeys(click_items(), 0))
    lately: deque[str] = deque(maxlen=100)

    def guesses(event: Event) -> tuple[str, ...]:
        first = recommender.recommend(event.user, 1, context=event.context, time=event.time)[0].item
        return first, ever.most_common(1)[0][0], Counter(lately or ever).most_common(1)[0][0]

    hits: list[tuple[bool, ...]] = []
    drifted = False
    print(f"Five ads. Of every {WINDOW} clicks, the share whose ad was ranked first before the click was learned.")
    print("(The first run compiles its kernels, which takes about half a minute.)\n", flush=True)
    print(f"  clicks   {METHODS[0]:<46}{METHODS[1]:<12}{METHODS[2]}")
    for event in clicks(SEED, IMPRESSIONS):
        if not drifted and event.time is not None and event.time >= IMPRESSIONS // 2:
            drifted = True
            print("  ·······  taste changes: ad3 is favoured now, ad2 no more  " + "·" * 27)
        hits.append(tuple(guess == event.item for guess in guesses(event)))
        recommender.learn(event)
        ever[event.item] += 1
        lately.append(event.item)
        if len(hits) % WINDOW == 0:
            ours, popular, recent = (sum(column) / WINDOW for column in zip(*hits[-WINDOW:], strict=True))
            print(f"  {len(hits):6,}   {ours:.2f} {'█' * round(40 * ours):<41}{popular:<12.2f}{recent:.2f}", flush=True)
    shares = (sum(column) / len(hits) for column in zip(*hits, strict=True))
    print("\n  whole stream: " + ", ".join(f"{name} {share:.2f}" for name, share in zip(METHODS, shares, strict=True)))

    someone = {"age": 1 - (2000 - 1985) / 70, "sex": 0, "state": 32}
    print("\nSomeone born in 1985 who lives in state 32 would now get:")
    for item, score in recommender.recommend(None, 3, context=someone):
        terms = recommender.explain(None, item, context=someone).terms
        name, value = next((" × ".join(t.features), t.value) for t in terms if "item" in "".join(t.features))
        print(f"  {item}   score {score:6.2f}   what the item adds most by: {name} ({value:+.2f})")


if __name__ == "__main__":
    main()
