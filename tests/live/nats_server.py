"""Starts a nats-server with JetStream, stops or kills it, and calls its API."""

import base64
import calendar
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

READY_LIMIT_S = 30


def find_program():
    """Returns the path of nats-server. Debian installs it in a folder that is only in root's PATH."""
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise FileNotFoundError("there is no nats-server: `scripts/setup.sh test` installs it")
    return program


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def nanoseconds(time_text):
    """Returns the Unix time of a text such as 2026-01-01T00:00:00.25Z."""
    whole, _, fraction = time_text.removesuffix("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(fraction.ljust(9, "0"))


def is_late(message):
    """Returns whether the message reached the stream after the time in its expiry header (kExpiryHeader in
    server/live/stream)."""
    headers = base64.b64decode(message.get("hdrs", "")).decode()
    expiry = re.search(r"^Maxsim-Expires: *(\d+)\r$", headers, re.M)
    return expiry is not None and nanoseconds(message["time"]) > int(expiry[1])


class NatsServer:
    """A nats-server that keeps its port when it is restarted. At the end of the with-statement it is killed by SIGKILL.
    `more` is text to add to its configuration. `host` is its address. `prefix` is a command that runs the program, for
    example in another network namespace."""

    def __init__(self, folder, max_payload=1 << 20, more="", host="127.0.0.1", prefix=()):
        self.host, self.prefix = host, list(prefix)
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"nats://{self.host}:{self.port}"
        self.process = None
        self._config = self.folder / "nats.conf"
        self._config.write_text(
            f'listen: "{self.host}:{self.port}"\nmax_payload: {max_payload}\n'
            f'jetstream {{ store_dir: "{self.folder / "data"}" }}\n{more}'
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        self.begin()
        self.wait()

    def begin(self):
        log = open(self.folder / "nats.log", "ab")  # pylint: disable=consider-using-with  the process uses it
        with log:
            command = [*self.prefix, find_program(), "-c", str(self._config)]
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait(self):
        """Waits until JetStream answers."""
        until = time.monotonic() + READY_LIMIT_S
        while True:
            try:
                if "error" not in self.ask("INFO"):
                    return
            except (OSError, ValueError):
                pass
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"nats-server did not become ready:\n{self.log()[-2000:]}")
            time.sleep(0.02)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def log(self):
        return (self.folder / "nats.log").read_text(errors="replace")

    def ask(self, subject, payload=b""):
        """Sends a request to JetStream's API. Returns the answer, parsed from JSON."""
        return json.loads(self.request(f"$JS.API.{subject}", payload))

    def request(self, subject, payload=b"", timeout_s=2.0):
        """Sends a message to a subject. Returns the answer."""
        return next(self.requests(subject, [payload], timeout_s))

    def remove_key(self, bucket, key):
        """Removes the value of a key of a bucket, as `nats kv del` does."""
        answer = next(self.requests(f"$KV.{bucket}.{key}", [b""], header=b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"))
        assert "error" not in json.loads(answer), answer

    def requests(self, subject, payloads, timeout_s=2.0, header=b""):
        """Sends messages to one subject, each after the answer to the previous one. Yields the answers."""
        with socket.create_connection((self.host, self.port), timeout_s) as connection:
            stream = connection.makefile("rwb")
            stream.readline()  # skips the server's INFO line
            has_header = b"true" if header else b"false"
            stream.write(b'CONNECT {"verbose":false,"pedantic":false,"headers":%s}\r\nSUB answer 1\r\n' % has_header)
            for payload in payloads:
                size = f"{len(header)} {len(header) + len(payload)}" if header else f"{len(payload)}"
                command = f"{'HPUB' if header else 'PUB'} {subject} answer {size}\r\n"
                stream.write(command.encode() + header + payload + b"\r\n")
            stream.flush()
            left = len(payloads)
            while left:
                line = stream.readline()
                if not line:
                    raise OSError("the connection was closed")
                if line.startswith(b"MSG"):
                    answer = stream.read(int(line.split()[-1]))
                    stream.readline()
                    left -= 1
                    yield answer
                if line.startswith(b"PING"):
                    stream.write(b"PONG\r\n")
                    stream.flush()

    def messages(self, name, first, last):
        """Returns (sequence, data) of a stream's messages from `first` to `last`. `data` is None for a message that
        came too late, which no server may apply."""
        found = []
        for begin in range(first, last + 1, 500):
            payloads = [f'{{"seq":{number}}}'.encode() for number in range(begin, min(begin + 500, last + 1))]
            for answer in self.requests(f"$JS.API.STREAM.MSG.GET.{name}", payloads, 10.0):
                message = json.loads(answer)["message"]
                data = None if is_late(message) else base64.b64decode(message["data"])
                found.append((message["seq"], data))
        return sorted(found)

    def stream_state(self, name):
        return self.ask(f"STREAM.INFO.{name}")["state"]


class NatsCluster:
    """A cluster of three NatsServers, with the methods of NatsServer. Each server holds one copy of a stream with three
    copies. `places` are the host and prefix of each server. By default each server has its own loopback address, so
    that no other program takes its ports while it is down."""

    def __init__(self, folder, max_payload=1 << 20, places=None):
        places = places or [(f"127.53.1.{number}", ()) for number in (1, 2, 3)]
        listens = [f"{host}:{free_port()}" for host, _ in places]
        addresses = ", ".join(f'"nats://{listen}"' for listen in listens)
        self.servers = []
        for i, (host, prefix) in enumerate(places):
            cluster = f'cluster {{ name: test, listen: "{listens[i]}", routes: [{addresses}] }}'
            more = f"server_name: nats-{i}\n{cluster}\n"
            self.servers.append(NatsServer(pathlib.Path(folder) / f"nats-{i}", max_payload, more, host, prefix))
        self.url = ",".join(one.url for one in self.servers)

    def start(self):
        for one in self.servers:
            one.begin()
        for one in self.servers:
            one.wait()

    def kill(self):
        for one in self.servers:
            one.kill()

    def log(self):
        return "\n".join(one.log()[-1500:] for one in self.servers)

    def leader_of(self, name):
        """Returns the server that leads a stream."""
        leader = self._ask_any(f"STREAM.INFO.{name}")["cluster"]["leader"]
        return self.servers[int(leader.removeprefix("nats-"))]

    def stream_state(self, name):
        return self._ask_any(f"STREAM.INFO.{name}")["state"]

    def messages(self, name, first, last):
        """Returns the same as NatsServer.messages. Retries if the leader of the stream changes meanwhile."""
        found = []
        for begin in range(first, last + 1, 500):
            found += self._messages(name, begin, min(begin + 499, last))
        return found

    def _messages(self, name, first, last):
        until = time.monotonic() + READY_LIMIT_S
        while True:
            for one in self.servers:
                try:
                    return one.messages(name, first, last)
                except (OSError, ValueError, KeyError):
                    pass
            if time.monotonic() > until:
                raise RuntimeError(f"no server of the cluster has the messages {first} to {last} of {name}")
            time.sleep(0.05)

    def _ask_any(self, subject):
        until = time.monotonic() + READY_LIMIT_S
        while True:
            for one in self.servers:
                try:
                    answer = one.ask(subject)
                    if "error" not in answer and answer.get("cluster", {}).get("leader"):
                        return answer
                except (OSError, ValueError):
                    pass
            if time.monotonic() > until:
                raise RuntimeError(f"no server of the cluster answers {subject}")
            time.sleep(0.05)
