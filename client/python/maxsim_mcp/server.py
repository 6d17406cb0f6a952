"""Serves the tools over MCP, with the package `mcp`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import maxsim
import mcp.types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from . import __version__, schemas
from .failures import ToolError
from .tools import Settings, Tools

_INSTRUCTIONS = (
    "Searches collections of documents by meaning. Call `list` once to see the collections and the fields that filters "
    "can use, then `search`. `explain` shows which words of a document matched the question."
)
_DESCRIPTIONS = {
    "search": "Finds the documents of a collection that answer a question best, and returns their titles and texts.",
    "explain": "Shows why a document was found: for each token of the question, the token of the document that it matched "
    "best, and their similarity. The similarities add up to the document's score.",
    "list": "Lists the collections that can be searched, with their sizes and the fields that filters can use.",
}
# The member of an error's `_meta` with its data. The structured content cannot hold the data: clients check it against
# the tool's schema even for errors, and would show a failed check instead of the tool's error.
ERROR_KEY = "maxsim/error"
_RESULTS = {"search": schemas.SEARCH_RESULT, "explain": schemas.EXPLAIN_RESULT, "list": schemas.LIST_RESULT}


def make_server(client: maxsim.AsyncClient, settings: Settings) -> Server[Any]:
    """Returns an MCP server whose tools use `client`. The server closes the client when it ends."""
    tools = Tools(client, settings)

    @contextlib.asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        async with client:
            yield {}

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=description,
                    input_schema=tools.arguments_of(name) or {},
                    output_schema=_RESULTS[name],
                    annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
                )
                for name, description in _DESCRIPTIONS.items()
            ]
        )

    async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        if tools.arguments_of(params.name) is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}; there are {', '.join(_DESCRIPTIONS)}")
        try:
            answer = await tools.call(params.name, params.arguments or {})
        except ToolError as error:
            return types.CallToolResult(content=_text(error.text()), is_error=True, _meta={ERROR_KEY: error.details})
        return types.CallToolResult(content=_text(answer.text), structured_content=answer.structured)

    return Server(
        "maxsim",
        version=__version__,
        instructions=_INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _text(text: str) -> list[types.ContentBlock]:
    return [types.TextContent(type="text", text=text)]


async def _serve(client: maxsim.AsyncClient, settings: Settings) -> None:
    server = make_server(client, settings)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def serve(client: maxsim.AsyncClient, settings: Settings) -> None:
    """Serves over standard input and output until the input ends."""
    anyio.run(_serve, client, settings)
