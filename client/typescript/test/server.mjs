// A server for tests: answers each request with the next of the given answers, and keeps what it was asked.

import { createServer } from "node:http";

/** Starts a server that stops when test `t` ends. Returns its URL and its requests: {method, path, headers, body, at}.
 * An answer is {status, headers, body}, where `body` may be an object, or a function (request, response). The last
 * answer is repeated. */
export async function startServer(t, ...answers) {
  const requests = [];
  const server = createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const { method, url: path, headers } = request;
      requests.push({ method, path, headers, body: Buffer.concat(chunks).toString(), at: performance.now() });
      const answer = answers[Math.min(requests.length, answers.length) - 1];
      if (typeof answer === "function") return answer(request, response);
      const { status = 200, headers: sent = {}, body = "" } = answer;
      response.writeHead(status, sent);
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections?.();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests };
}

export const RANKING = {
  status: 200,
  body: {
    results: [{ id: "a", index: 0, relevance_score: 1.5 }],
    generation: 1,
    id: "request",
    model: "demo",
    timings: { total_us: 10.5 },
  },
};

export function refusal(status, code, details = {}, headers = {}) {
  return { status, headers, body: { error: { code, message: `refused: ${code}`, ...details } } };
}

export const QUERY = [[1, 0.5], [0, -2]];
