// Functions that the heat maps of texts and of pages share. `rows` are similarities: one row per query token, with one
// number per document vector.

// Returns the range of the colours: from the median to the largest similarity.
export function scaleOf(rows) {
  const sorted = rows.flat().sort((a, b) => a - b);
  const low = sorted[Math.floor(sorted.length / 2)];
  const high = sorted[sorted.length - 1];
  return { low, high: high > low ? high : low + 1 };
}

// Returns how strongly to colour a similarity: 0 (not at all) to 1.
export function levelOf(value, scale) {
  const level = (value - scale.low) / (scale.high - scale.low);
  return Math.min(1, Math.max(0, level)) ** 1.3;
}

// Returns the column of the row's largest similarity.
export function bestOf(row) {
  let best = 0;
  for (let idx = 1; idx < row.length; ++idx) if (row[idx] > row[best]) best = idx;
  return best;
}

// Returns for each column (document vector) what it adds to the score, relative to the column that adds most: 0 to 1.
// `best[i]` is the best column of row i.
export function sharesOf(rows, best, num_columns) {
  const sums = new Array(num_columns).fill(0);
  best.forEach((j, i) => {
    sums[j] += Math.max(0, rows[i][j]);
  });
  const most = Math.max(...sums, 1e-9);
  return sums.map((value) => value / most);
}

// Returns `given` if it has a name for each of `size` tokens, else numbers.
export function names(given, size, kind) {
  if (Array.isArray(given) && given.length === size) return given;
  return Array.from({ length: size }, (_, idx) => `${kind}${idx + 1}`);
}
