#!/bin/sh
# The service with nothing but curl: coldstream serve --schema examples/schema.toml --data data &
set -eu
URL=${COLDSTREAM_URL:-http://127.0.0.1:8000}
JSON='content-type: application/json'

# What there is to recommend
curl -sf "$URL/items" -H "$JSON" -d '[{"id": "m50", "attributes": {"genre": ["Sci-Fi"]}}, {"id": "m51", "attributes": {"genre": ["Drama"]}}, {"id": "m52"}]'
# What happened; sent twice under the same event_id, it is learned once. The answer says the position in the log.
POSITION=$(curl -sf "$URL/events" -H "$JSON" -d '{"user": "ann", "item": "m50", "event_id": "order-1"}' | sed 's/.*"position":\([0-9]*\).*/\1/')
# What to show: `after` makes sure that the answer knows what was just written, whichever replica gives it
curl -sf "$URL/recommend" -H "$JSON" -d "{\"user\": \"ann\", \"n\": 2, \"after\": $POSITION}"
echo
