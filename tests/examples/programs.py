"""Programs that the tests of examples/ run, each on a free port."""

import http.client
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "service"))
import program_fixture  # noqa: E402

READY_LIMIT_S = 60
RUN_LIMIT_S = 240


def run(*command, **options):
    """Runs a program to its end and returns its standard output. Fails the test if the program fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=RUN_LIMIT_S, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class Maxsimd(program_fixture.Maxsimd):
    """Runs maxsimd from the folder `programs`. It serves the bundled demo collection under the name "demo"."""

    def __init__(self, programs, **flags):
        self._scratch = tempfile.TemporaryDirectory(prefix="maxsim-examples-")
        folder = pathlib.Path(self._scratch.name)
        run(ROOT / "demo" / "build.sh", "--bin", programs, "--output", folder / "demo")
        super().__init__(programs, folder / "server", folder / "demo", **flags)

    def stop(self):
        super().stop()
        self._scratch.cleanup()


class Encoder:
    """maxsim-encoder with the bundled model."""

    def __init__(self):
        command = [sys.executable, "-m", "maxsim_encoder", "--demo", "--port", "0"]
        self.process = subprocess.Popen(
            command, cwd=ROOT / "client" / "python", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        line = self.process.stdout.readline()
        found = re.fullmatch(r"listening http://127\.0\.0\.1:(\d+)\n", line)
        if not found:
            raise AssertionError(f"the encoder names no port: {line}{self.process.communicate()[0]}")
        self.port = int(found[1])
        _wait_until(lambda: request(self.port, "GET", "/health")[0] == 200, self.process, lambda: "see its output")

    def stop(self):
        self.process.terminate()
        self.process.communicate()


def request(port, method, path, body=None):
    """Status and body of the answer, as text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=RUN_LIMIT_S)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _wait_until(is_ready, process, log):
    limit = time.monotonic() + READY_LIMIT_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            raise AssertionError(f"{process.args[0]} is not ready: {log()}")
        time.sleep(0.05)
