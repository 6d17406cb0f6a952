"""Watches what replicas report about their stream: in their logs, in GetInfo and in their metrics. No replica may
report a stream as lost, wrong or too short unless the test damaged the stream."""

import re
import threading

import grpc
import nodes  # noqa: F401  which finds the package maxsim
from maxsim.v1 import rerank_pb2

# Matches the log lines with which a server says that it gives up its stream (server/live/stream/following.cc).
ALARM = re.compile(
    "it has lost messages that were acknowledged|ends with sequence|the stream has another one there|has no stream|"
    "it was deleted and created again|the messages between are gone|must agree; start this one from a snapshot"
)
# A server adds this to the line while it is not sure yet. For some seconds after a failover, NATS may report that a
# stream ends earlier than it does.
DOUBT = "unless NATS is still recovering"
LOOK_S = 0.5


def sort_lines(text):
    """Returns the lines that report an alarm, and those that report only a doubt."""
    found = [line for line in text.splitlines() if ALARM.search(line)]
    return [line for line in found if DOUBT not in line], [line for line in found if DOUBT in line]


class StreamWatch:
    """Reads the state of the replicas in the background, within a with-statement."""

    def __init__(self, replicas, name):
        self.replicas, self.name = replicas, name
        self.alarms, self.num_doubts = [], 0
        self._read = dict.fromkeys((node.name for node in replicas), 0)  # bytes of each log
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ending.set()
        self._thread.join()

    def _run(self):
        while not self._ending.wait(LOOK_S):
            for node in self.replicas:
                try:
                    info = node.reranker.GetInfo(rerank_pb2.GetInfoRequest(), timeout=2)
                except (grpc.RpcError, ValueError):  # the replica is away, or was when its channel was closed
                    continue
                for one in info.collections:
                    if one.name == self.name:
                        self._note(node, "GetInfo", one.live.error + "\n" + one.error)

    def _note(self, node, where, text):
        alarms, doubts = sort_lines(text)
        self.alarms += [f"{node.name}, {where}: {line}" for line in alarms]
        self.num_doubts += len(doubts) if where == "log" else 0

    def check(self):
        """Reads the new lines of the logs. Raises if any replica has ever given up its stream."""
        for node in self.replicas:
            with open(node.log_path, "rb") as log:
                log.seek(self._read[node.name])
                text = log.read()
            whole = text.rfind(b"\n") + 1
            self._read[node.name] += whole
            self._note(node, "log", text[:whole].decode(errors="replace"))
        if self.alarms:
            raise AssertionError(f"{len(self.alarms)} false alarms, first\n" + "\n".join(self.alarms[:5]))

    def problem(self, node):
        """Returns why the replica takes no writes now, by GetInfo or its metrics, or ""."""
        error = node.info(self.name).live.error
        if error:
            return error
        for name, labels, value in node.series():
            if name in ("maxsim_live_accepts_writes", "maxsim_live_stream_connected") and value != 1:
                return f"{name} is {value:g}"
            if name == "maxsim_live_stream_messages_total" and 'result="unreadable"' in labels and value:
                self.alarms.append(f"{node.name}, metrics: {value:g} messages are unreadable")
        return ""
