// Writes numbers for people: about three digits, and a unit that fits.

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function threeDigits(value) {
  const size = Math.abs(value);
  if (size >= 100 || size === 0) return NUMBER.format(value);
  return value.toFixed(size >= 10 ? 1 : 2);
}

export function count(value) {
  return NUMBER.format(value);
}

export function rate(value) {
  if (value >= 1e6) return `${threeDigits(value / 1e6)} M`;
  if (value >= 1e5) return `${threeDigits(value / 1e3)} k`;
  return value > 0 && value < 0.01 ? "<0.01" : threeDigits(value);
}

export function duration(us) {
  // The rounded value decides the unit: 999.9 ms becomes 1.00 s, not 1,000 ms.
  if (us < 999.5) return `${Math.round(us)} µs`;
  if (us < 999.5e3) return `${threeDigits(us / 1000)} ms`;
  return `${threeDigits(us / 1e6)} s`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    ++unit;
  }
  return `${unit === 0 ? value : threeDigits(value)} ${units[unit]}`;
}

export function percent(share) {
  return `${threeDigits(share * 100)} %`;
}

export function score(value) {
  return value.toFixed(Math.abs(value) >= 100 ? 2 : 4);
}

export function similarity(value) {
  return value.toFixed(2).replace("-", "−");
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
