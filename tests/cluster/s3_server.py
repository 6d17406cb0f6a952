"""moto's server, which plays S3 in a process of its own."""

import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from nats_server import free_port

LIMIT_S = 500  # of the start and of each call; only ends a test that hangs
# moto looks only at the form of a signature.
SIGNED = "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


class S3Server:
    """A fake S3 server with one empty bucket, which keeps everything in memory. `python` is the Python of an
    environment with moto."""

    def __init__(self, python, folder, bucket="backups"):
        self.port, self.bucket = free_port(), bucket
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = pathlib.Path(folder) / "s3.log"
        program = pathlib.Path(python).with_name("moto_server")
        with open(self.log_path, "ab") as log:
            command = [str(python), str(program), "-H", "127.0.0.1", "-p", str(self.port)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_ready()

    def _wait_ready(self):
        until = time.monotonic() + LIMIT_S
        while True:
            try:
                self.call("PUT", "")
                return
            except OSError as error:
                late = time.monotonic() > until or self.process.poll() is not None
                if late:
                    self.process.kill()
                    raise RuntimeError(f"moto_server did not start: {self.log_path.read_text()}") from error
                time.sleep(0.1)

    def environment(self):
        """Returns the variables with which programs reach this server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "backup-test-id",
            "AWS_SECRET_ACCESS_KEY": "backup-test-secret",
            "AWS_SESSION_TOKEN": "backup-test-token",
        }

    def call(self, method, key, body=None):
        """Returns the body of the answer."""
        target = f"{self.url}/{self.bucket}/{urllib.parse.quote(key)}" if key else f"{self.url}/{self.bucket}"
        # With urllib's default content type, moto would parse the body as a form and store nothing.
        headers = {"Authorization": SIGNED, "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(target, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return answer.read()

    def get(self, key):
        """Returns the object's bytes, or None if there is none."""
        try:
            return self.call("GET", key)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def requests(self):
        """Returns the requests in the server's log, such as 'PUT /backups/key?partNumber=1 HTTP/1.1'."""
        return [line.split('"')[1] for line in self.log_path.read_text().splitlines() if line.count('"') >= 2]

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
