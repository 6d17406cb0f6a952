// For Node only: a fetch with your own certificates. The global fetch of Node takes no options for these.

import { Agent, request } from "node:https";

export interface NodeTlsOptions {
  /** Authorities that may have signed the server's certificate, as PEM. If absent: those that Node trusts. */
  ca?: string | Uint8Array;
  /** This client's certificate and key as PEM, for a server with tls.client_ca_file. */
  cert?: string | Uint8Array;
  key?: string | Uint8Array;
  /** The name in the server's certificate, if it is not the host of the URL. */
  servername?: string;
}

/** Returns a fetch for `ClientOptions.fetch`, for https URLs only. It keeps connections open, sends a body only if it
 * is a string, and does not follow redirects. */
export function nodeFetch(options: NodeTlsOptions): typeof fetch {
  const agent = new Agent({ keepAlive: true, ...options });
  return (input, init = {}) =>
    new Promise<Response>((resolve, reject) => {
      const { method = "GET", headers = {}, signal } = init;
      const body = typeof init.body === "string" ? init.body : undefined;
      const sent = { ...Object.fromEntries(new Headers(headers)), ...lengthOf(body) };
      const fail = (cause: Error) => reject(Object.assign(new TypeError("fetch failed"), { cause }));
      const asked = request(String(input), { method, headers: sent, agent, signal: signal ?? undefined }, (answer) => {
        const chunks: Uint8Array[] = [];
        answer.on("data", (chunk) => chunks.push(chunk));
        answer.on("error", fail);
        answer.on("end", () => {
          const status = answer.statusCode ?? 0;
          const content = status === 204 || status === 304 ? null : new Blob(chunks);
          resolve(new Response(content, { status, headers: pairsOf(answer.rawHeaders) }));
        });
      });
      asked.on("error", fail);
      asked.end(body);
    });
}

function lengthOf(body: string | undefined): Record<string, string> {
  return body === undefined ? {} : { "content-length": String(new TextEncoder().encode(body).length) };
}

function pairsOf(raw: string[]): [string, string][] {
  return Array.from({ length: raw.length / 2 }, (_, i) => [raw[2 * i] ?? "", raw[2 * i + 1] ?? ""]);
}
