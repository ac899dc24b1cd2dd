# SPDX-License-Identifier: GPL-2.0-or-later
"""An aiohttp server that answers hello."""

from aiohttp import web


async def hello(_request: web.Request) -> web.Response:
    return web.Response(text="hello")


app = web.Application()
app.add_routes([web.get("/", hello)])
web.run_app(app, host="127.0.0.1", port=7950, access_log=None, print=None)
