"""Runs nginx with deploy/nginx/maxsimd.conf in front of a maxsimd, as SECURITY.md advises if clients are not
trusted."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent.parent / "deploy" / "nginx" / "maxsimd.conf"

SURROUNDINGS = """
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
{example}
}}
"""


def find_nginx(folder):
    """Returns the path of nginx. If nginx is not installed, unpacks the distribution's package into `folder`."""
    installed = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if installed:
        return installed
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "usr" / "sbin" / "nginx"
    if not program.exists():
        for command in (["apt-get", "download", "nginx"], ["sh", "-c", "dpkg-deb -x nginx_*.deb ."]):
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return str(program)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Proxy:
    """Runs nginx with the example's configuration, but with other ports and without TLS, which makes no difference for
    attacks on HTTP/2."""

    def __init__(self, nginx, folder, grpc_port):
        self.port = free_port()
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o755)
        example, listens = re.subn(r"listen 7443 ssl http2;", f"listen 127.0.0.1:{self.port} http2;", EXAMPLE.read_text())
        example, upstreams = re.subn(r"server 127\.0\.0\.1:7070;", f"server 127.0.0.1:{grpc_port};", example)
        if (listens, upstreams) != (1, 1):
            raise RuntimeError(f"{EXAMPLE} listens on another port, or has another upstream, than the test expects")
        example = re.sub(r"(?m)^\s*ssl_.*;$", "", example)
        configuration = self.folder / "nginx.conf"
        configuration.write_text(SURROUNDINGS.format(folder=self.folder, example=example))
        self.process = subprocess.Popen([nginx, "-p", str(self.folder), "-c", str(configuration)])
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"nginx did not start: {(self.folder / 'error.log').read_text()}") from None
                time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def rss_bytes(self):
        """Returns what the program and its workers take."""
        pids = [str(self.process.pid)]
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        pids += tasks.read_text().split()
        total = 0
        for pid in pids:
            try:
                with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                    total += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except OSError:
                pass
        return total
