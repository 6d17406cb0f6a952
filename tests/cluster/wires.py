"""Two kinds of networks that are slow and can be cut. One of them also loses packets.

Switch: each server has its own network namespace. A switch that is written in Python connects them, delays each packet
and loses some. This needs root, /dev/net/tun and ip(8).

Relays: need no root. A relay in front of each server forwards data late, or not at all while the connection is cut.
Relays lose no data.

Both kinds run in separate processes, which read commands, one per line: "cut NAME", "heal NAME". For a switch, NAME may
also be the two ends of a connection with a slash between them. "set DELAY_S LOSS" sets the delay of packets and the
fraction that is lost.
"""

import asyncio
import collections
import fcntl
import json
import os
import random
import select
import struct
import subprocess
import sys
import time

DELAY_S, LOSS = 0.001, 0.01
NETWORK = "198.18.53"  # reserved for tests of networks (RFC 2544)
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME_BYTES = 65_600


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def open_tap(name):
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return handle


def why_no_switch():
    """Returns why this machine cannot create the namespaces, or ""."""
    name = f"mx{os.getpid()}"
    try:
        ip("netns", "add", name)
        try:
            handle = open_tap(name)
            ip("link", "set", name, "netns", name)
            os.close(handle)
        finally:
            ip("netns", "del", name)
    except OSError as error:
        return str(error)
    return ""


class Wires:
    """The base class of Switch and Relays: starts the process, and sends it commands."""

    def __init__(self, *arguments, pass_fds=()):
        command = [sys.executable, "-B", __file__, *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=pass_fds
        )
        self.said = json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n", f"the network does not take {line!r}"

    def cut(self, name):
        self.tell(f"cut {name}")

    def heal(self, name):
        self.tell(f"heal {name}")


class Switch(Wires):
    """`names` are the namespaces. They get the addresses NETWORK.2, NETWORK.3 and so on. This process has NETWORK.1."""

    def __init__(self, names, seed):
        self.prefix = f"mx{os.getpid()}"
        self.spaces = {name: f"{self.prefix}-{name}" for name in names}
        self.address = {name: f"{NETWORK}.{index + 2}" for index, name in enumerate(names)}
        handles, taps = {}, ["here", *names]
        try:
            for index, name in enumerate(taps):
                tap = f"{self.prefix}t{index}"
                handles[name] = open_tap(tap)
                space = []
                if name != "here":
                    ip("netns", "add", self.spaces[name])
                    ip("link", "set", tap, "netns", self.spaces[name])
                    space = ["-n", self.spaces[name]]
                    ip(*space, "link", "set", "lo", "up")
                ip(*space, "addr", "add", f"{NETWORK}.{index + 1}/24", "dev", tap)
                ip(*space, "link", "set", tap, "up")
            made = ",".join(f"{name}={handle}" for name, handle in handles.items())
            super().__init__("switch", seed, made, pass_fds=tuple(handles.values()))
        except BaseException:
            self._remove()
            raise
        finally:
            for handle in handles.values():
                os.close(handle)

    def set(self, delay_s, loss):
        """Sets the delay of every later packet, and the fraction of packets that is lost."""
        self.tell(f"set {delay_s} {loss}")

    def place(self, name):
        """Returns the address of a namespace, and the command that starts a program in it."""
        return self.address[name], ("ip", "netns", "exec", self.spaces[name])

    def _remove(self):
        for space in self.spaces.values():
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)

    def __exit__(self, *_):
        super().__exit__()
        self._remove()


class Relays(Wires):
    """`targets` are addresses by name. `self.said` has the relays' addresses by name."""

    def __init__(self, targets):
        super().__init__("relays", json.dumps(targets))


class Several:
    """Relays for another set of names."""

    def __init__(self, *nets):
        self.net_of = {name: net for net in nets for name in net.said}

    def cut(self, name):
        self.net_of[name].cut(name)

    def heal(self, name):
        self.net_of[name].heal(name)


class Plugs:
    """Runs in the process of the switch: takes frames from each tap device and sends them to the tap of their
    receiver."""

    def __init__(self, seed, handles):
        self.chooser, self.handles = random.Random(seed), handles
        self.names = {handle: name for name, handle in handles.items()}
        self.owner = {}  # tap by hardware address
        self.cut = set()
        self.delay_s, self.loss = DELAY_S, LOSS
        self.waiting = collections.deque()  # (time, tap, frame), in the order of their arrival

    def take(self, tap, now):
        while True:
            try:
                frame = os.read(tap, FRAME_BYTES)
            except BlockingIOError:
                return
            self.owner[frame[6:12]] = tap
            if self.names[tap] in self.cut or self.loss and self.chooser.random() < self.loss:
                continue
            to = self.owner.get(frame[:6])
            for other in [to] if to else [one for one in self.names if one != tap]:
                if not self.is_cut(tap, other):
                    self.waiting.append((now + self.delay_s, other, frame))

    def is_cut(self, tap, other):
        """Returns whether frames from one tap to another are dropped."""
        a, b = self.names[tap], self.names[other]
        return b in self.cut or f"{a}/{b}" in self.cut or f"{b}/{a}" in self.cut

    def give(self, now):
        while self.waiting and self.waiting[0][0] <= now:
            _, tap, frame = self.waiting.popleft()
            try:
                os.write(tap, frame)
            except OSError:  # the tap's queue is full, or its link is down: the packet is lost
                pass

    def run(self):
        print("{}", flush=True)
        while True:
            left = max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else None
            ready, _, _ = select.select([sys.stdin, *self.names], [], [], left)
            now = time.monotonic()
            for one in ready:
                if one is not sys.stdin:
                    self.take(one, now)
                    continue
                line = sys.stdin.readline().split()
                if not line:
                    return
                self.obey(*line)
                print("done", flush=True)
            self.give(now)

    def obey(self, command, *arguments):
        if command == "set":
            self.delay_s, self.loss = map(float, arguments)
        else:
            (self.cut.add if command == "cut" else self.cut.discard)(*arguments)


class RelayServer:
    """Runs in the relays' process."""

    def __init__(self, targets):
        self.targets = targets
        self.open = {}  # by name: an event that is set unless the connection is cut

    async def serve(self):
        said = {}
        for name, target in self.targets.items():
            self.open[name] = asyncio.Event()
            self.open[name].set()
            server = await asyncio.start_server(lambda r, w, name=name: self.connect(name, r, w), "127.0.0.1", 0)
            said[name] = "{}:{}".format(*server.sockets[0].getsockname())
        print(json.dumps(said), flush=True)
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := (await reader.readline()).decode().split():
            (self.open[line[1]].clear if line[0] == "cut" else self.open[line[1]].set)()
            print("done", flush=True)

    async def connect(self, name, reader, writer):
        await self.open[name].wait()
        host, port = self.targets[name].rsplit(":", 1)
        try:
            to_reader, to_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(self.pump(name, reader, to_writer), self.pump(name, to_reader, writer))

    async def pump(self, name, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                await asyncio.sleep(DELAY_S)
                await self.open[name].wait()
                writer.write(data)
                await writer.drain()
            writer.close()
        except OSError:
            writer.transport.abort()


if __name__ == "__main__":
    if sys.argv[1] == "switch":
        Plugs(sys.argv[2], {name: int(handle) for name, handle in (o.split("=") for o in sys.argv[3].split(","))}).run()
    else:
        asyncio.run(RelayServer(json.loads(sys.argv[2])).serve())
