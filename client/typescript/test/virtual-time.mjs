// Virtual time for tests: timers fire at once, in the order of their times, and performance.now() follows them.

/** Replaces setTimeout, clearTimeout and performance.now until test `t` ends. Only for tests whose fetch is a function
 * of the test: real connections would take no virtual time. Returns an object with the present time `now`, in ms. */
export function virtualTime(t) {
  const real = { setTimeout, clearTimeout, performance };
  const clock = { now: 1000 };
  replacePerformance({ now: () => clock.now });
  let timers = [];
  const fireNext = () => {
    const next = timers.reduce((first, one) => (first === undefined || one.at < first.at ? one : first), undefined);
    if (next !== undefined) {
      timers = timers.filter((one) => one !== next);
      clock.now = Math.max(clock.now, next.at);
      next.callback();
    }
    pump = setImmediate(fireNext); // after the promises that the timer resolved
  };
  let pump = setImmediate(fireNext);
  globalThis.setTimeout = (callback, ms) => {
    const timer = { callback, at: clock.now + ms };
    timers.push(timer);
    return timer;
  };
  globalThis.clearTimeout = (timer) => {
    timers = timers.filter((one) => one !== timer);
  };
  t.after(() => {
    clearImmediate(pump);
    globalThis.setTimeout = real.setTimeout;
    globalThis.clearTimeout = real.clearTimeout;
    replacePerformance(real.performance);
  });
  return clock;
}

function replacePerformance(value) {
  Object.defineProperty(globalThis, "performance", { value, configurable: true, writable: true });
}

/** Returns a fetch that gives each call the next of `answers`, and keeps the times of its calls in `times`. An answer
 * is {status, headers, body}, "silence" (none until the signal aborts it) or an Error, with which the call fails. The
 * last answer is repeated. */
export function fakeFetch(clock, ...answers) {
  const times = [];
  const fetch = (_url, { signal }) => {
    times.push(clock.now);
    const answer = answers[Math.min(times.length, answers.length) - 1];
    if (answer instanceof Error) return Promise.reject(answer);
    if (answer !== "silence") {
      const { status = 200, headers = {}, body = {} } = answer;
      return Promise.resolve(new Response(JSON.stringify(body), { status, headers }));
    }
    return new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    });
  };
  return { fetch, times };
}
