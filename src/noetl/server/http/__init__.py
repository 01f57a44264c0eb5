"""The API over HTTP. `app.py` puts it together from the routes of the other modules; each route says who may call it."""
