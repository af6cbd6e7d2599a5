"""A shop on FastAPI: a page with recommendations, and purchases that are learned behind the customer's back.

pip install 'coldstream[client]' fastapi uvicorn
coldstream serve --schema examples/schema.toml --data data &
uvicorn --app-dir examples/fastapi_shop shop:app --port 8080
curl localhost:8080/shelf/ann
curl -X POST localhost:8080/buy/ann/m50
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request

from coldstream.client import AsyncClient, BackgroundEvents, Client, ServiceUnavailable

URL = os.environ.get("COLDSTREAM_URL", "http://127.0.0.1:8000")
BESTSELLERS = ["m50", "m51"]
"""What the shop shows while the recommender is away: a shop must not depend on it."""


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    """One connection for questions, and a thread that sends purchases in batches."""
    key = os.environ.get("COLDSTREAM_KEY")
    async with AsyncClient(URL, timeout=0.3, key=key) as client:
        with Client(URL, key=key) as sender, BackgroundEvents(sender) as purchases:
            app.state.client, app.state.purchases = client, purchases
            yield


app = FastAPI(lifespan=connected)


@app.get("/shelf/{customer}")
async def shelf(request: Request, customer: str, device: str = "desktop") -> dict[str, Any]:
    """What to show a customer."""
    try:
        best = await request.app.state.client.recommend(customer, n=5, context={"device": device})
        return {"items": [one.item for one in best], "from": "coldstream"}
    except ServiceUnavailable:
        return {"items": BESTSELLERS, "from": "bestsellers"}


@app.post("/buy/{customer}/{item}", status_code=202)
def buy(request: Request, customer: str, item: str, device: str = "desktop") -> dict[str, str]:
    """A purchase: the customer is answered at once, and the recommender learns of it within moments."""
    request.app.state.purchases.add(customer, item, context={"device": device})
    return {"bought": item}
