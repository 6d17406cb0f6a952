// Decodes the image in a payload. Payloads are not trusted, so the image must be a PNG or JPEG inside the payload (a
// data: URL) with a limited number of pixels. Nothing is fetched, and no element of the page gets an address from a
// payload.

const MAX_LETTERS = 1 << 20; // of the data: URL, as of a payload
const MAX_PIXELS = 1 << 24; // 64 MiB when decoded
const MAX_SIDE = 1 << 14; // browsers have canvases of at least this size
const DATA_URL = /^data:image\/(png|jpeg);base64,([A-Za-z0-9+/]+={0,2})$/;

const PNG_BEGIN = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52];

// Returns [width, height], or null.
function pngSize(view) {
  if (view.byteLength < 24 || PNG_BEGIN.some((byte, idx) => view.getUint8(idx) !== byte)) return null;
  return [view.getUint32(16), view.getUint32(20)];
}

const SIZE_MARKERS = [0xffc0, 0xffc1, 0xffc2]; // frame headers of baseline, extended and progressive JPEG

// Returns whether a JPEG segment of this kind may stand before the frame header.
function isSkipped(marker) {
  return [0xffc4, 0xffcc, 0xffdb, 0xffdd, 0xfffe].includes(marker) || (marker >= 0xffe0 && marker <= 0xffef);
}

// Returns [width, height] from the first frame header of a JPEG file, or null. Returns null at any unexpected marker. A
// decoder might skip a marker such as RST0 in another way, and find another frame header with another size.
function jpegSize(view) {
  if (view.byteLength < 4 || view.getUint16(0) !== 0xffd8) return null;
  let position = 2;
  while (position + 9 <= view.byteLength) {
    const marker = view.getUint16(position);
    if (SIZE_MARKERS.includes(marker)) return [view.getUint16(position + 7), view.getUint16(position + 5)];
    if (!isSkipped(marker)) return null;
    position += 2 + view.getUint16(position + 2);
  }
  return null;
}

// Resolves to an ImageBitmap, or null if it is no PNG or JPEG or is too large.
export async function decodeImage(url) {
  if (typeof url !== "string" || url.length > MAX_LETTERS) return null;
  const parts = DATA_URL.exec(url);
  if (parts === null) return null;
  try {
    const bytes = Uint8Array.from(atob(parts[2]), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    // A small file can have very many pixels, so read their number before decoding.
    const size = parts[1] === "png" ? pngSize(view) : jpegSize(view);
    if (size === null || Math.min(...size) < 1 || Math.max(...size) > MAX_SIDE || size[0] * size[1] > MAX_PIXELS) return null;
    return await createImageBitmap(new Blob([bytes], { type: `image/${parts[1]}` }));
  } catch {
    return null;
  }
}
