"""A registry of images in this process, which keeps its contents in memory. It implements those parts of the registry's
HTTP API, version 2, that `buildah push` and readers of manifests call: blobs, uploads and manifests.

Like real registries, it refuses a blob that does not match its digest, and a manifest that names a blob or manifest
which was not pushed before.
"""

import hashlib
import http.server
import json
import re
import threading
import urllib.parse

# The types of a manifest whose parts are other manifests.
LISTS = ("application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.oci.image.index.v1+json")


def digest_of(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


class Registry(http.server.ThreadingHTTPServer):
    """A registry on a free port of 127.0.0.1, with the address `address`. It runs from start() to stop()."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server_port}"
        # {(repository, digest): (media type, content)}. A manifest also has an entry (repository, tag) for each of its
        # tags.
        self.blobs, self.manifests = {}, {}
        # {name of an upload: content so far}
        self.uploads = {}
        # Held while a request reads or changes the three above.
        self.lock = threading.Lock()

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self):
        self.shutdown()
        self.server_close()

    def lacks(self, repository, kind, manifest):
        """Returns the digests that a manifest names and the repository does not have."""
        if kind in LISTS:
            return [one["digest"] for one in manifest["manifests"] if (repository, one["digest"]) not in self.manifests]
        parts = [manifest["config"], *manifest["layers"]]
        return [one["digest"] for one in parts if (repository, one["digest"]) not in self.blobs]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, content=b"", **headers):
        self.send_response(status)
        for name, value in {"Content_Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def content(self):
        """Reads the body of the request. In a chunked body, each chunk follows a line with its length in
        hexadecimal."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def handle_request(self):
        content = self.content()
        url = urllib.parse.urlsplit(self.path)
        found = re.fullmatch(r"/v2/(?:(.+)/(blobs/uploads|blobs|manifests)/([^/]*))?", url.path)
        with self.server.lock:
            if found is None:
                self.answer(404)
            elif found[1] is None:
                self.answer(200)
            elif found[2] == "blobs/uploads":
                self.upload(found[1], found[3], content, urllib.parse.parse_qs(url.query))
            elif self.command == "PUT" and found[2] == "manifests":
                self.put_manifest(found[1], found[3], content)
            else:
                self.get(getattr(self.server, found[2]), found[1], found[3])

    do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = handle_request

    def get(self, objects, repository, name):
        kind, content = objects.get((repository, name), (None, b""))
        if kind is None:
            self.answer(404)
        else:
            self.answer(200, content, Content_Type=kind, Docker_Content_Digest=digest_of(content))

    def upload(self, repository, name, content, query):
        """Begins an upload (POST), appends to it (PATCH), or ends it with the digest of the blob (PUT)."""
        name = name or str(len(self.server.uploads))
        self.server.uploads[name] = self.server.uploads.get(name, b"") + content
        if self.command != "PUT":
            self.answer(202, Location=f"/v2/{repository}/blobs/uploads/{name}")
            return
        blob = self.server.uploads[name]
        if query.get("digest") != [digest_of(blob)]:
            self.answer(400, b"the content has another digest")
            return
        self.server.blobs[repository, digest_of(blob)] = ("application/octet-stream", blob)
        self.answer(201, Location=f"/v2/{repository}/blobs/{digest_of(blob)}")

    def put_manifest(self, repository, name, content):
        kind, digest = self.headers.get("Content-Type", ""), digest_of(content)
        missing = self.server.lacks(repository, kind, json.loads(content))
        if missing or (name.startswith("sha256:") and name != digest):
            self.answer(400, json.dumps({"missing": missing, "digest": digest}).encode())
            return
        for key in (name, digest):
            self.server.manifests[repository, key] = (kind, content)
        self.answer(201, Location=f"/v2/{repository}/manifests/{digest}", Docker_Content_Digest=digest)
