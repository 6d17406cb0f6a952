"""Sessions with maxsim-mcp: a client of the package `mcp` starts the program, and talks to it through standard input
and output."""

import pathlib
import sys
import unittest

import anyio
import jsonschema
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "examples"), str(TESTS / "support")]
from python_package import PYTHON_CLIENT, use_package  # noqa: E402

use_package()
from maxsim_mcp.server import ERROR_KEY  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
LIMIT_S = 120  # only ends a test that hangs


class SessionTest(unittest.TestCase):
    """A class of tests sets `server`, a maxsimd."""

    def session(self, work, *options, server=None, mode="auto", **environment):
        """Starts maxsim-mcp, runs `work(client)` with a client that is connected to it, and returns the result of
        `work`."""
        command = ["-m", "maxsim_mcp", *map(str, options)]
        environment = {"PYTHONPATH": str(PYTHON_CLIENT), "MAXSIM_SERVER": server or self.server.address, **environment}
        parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)

        async def run_session():
            with anyio.fail_after(LIMIT_S):
                async with Client(stdio_client(parameters), mode=mode) as client:
                    return await work(client)

        return anyio.run(run_session)

    def results(self, calls, *options, server=None, environment=None):
        """Makes calls in one session. `calls` are pairs (tool, arguments). Checks the structured content of each
        result, also of errors, against the tool's schema, as TypeScript clients do. Returns the results."""

        async def work(client):
            listed = await client.list_tools()
            return listed.tools, [await client.call_tool(tool, arguments) for tool, arguments in calls]

        tools, results = self.session(work, *options, server=server, **(environment or {}))
        schemas = {tool.name: tool.output_schema for tool in tools}
        for (tool, _), result in zip(calls, results):
            if result.structured_content is not None:
                jsonschema.validate(result.structured_content, schemas[tool])
        return results

    def found(self, tool, *options, **arguments):
        """Returns the text and the structured content of a call that succeeds."""
        (result,) = self.results([(tool, arguments)], *options)
        return self.succeeded(result)

    def succeeded(self, result):
        self.assertFalse(result.is_error, result.content)
        (block,) = result.content
        return block.text, result.structured_content

    def refused(self, tool, *options, server=None, **arguments):
        """Returns the data of a call that fails."""
        (result,) = self.results([(tool, arguments)], *options, server=server)
        return self.failed(result)

    def failed(self, result):
        """Returns the data of an error. Checks that the text says the same."""
        self.assertTrue(result.is_error, result.content)
        self.assertIsNone(result.structured_content)
        error = result.meta[ERROR_KEY]
        reason = f" (reason {error['reason']})" if "reason" in error else ""
        self.assertEqual(result.content[0].text, f"{error['code']}: {error['message']}{reason}")
        return error
