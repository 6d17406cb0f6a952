// Fuzzes the bytes that a client sends to the gRPC port before its first call. In whatever pieces the bytes arrive, the
// gate's scanner (which reads them before gRPC does) must return the same results and all bytes. It must never hold
// more bytes than its limits allow.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "server/gate/http2_scanner.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

struct Scanned {
  std::vector<gate::Http2Unit> units;
  absl::Status status;
  std::string rest;
};

Scanned Scan(std::string_view bytes, size_t piece_bytes) {
  Scanned scanned;
  gate::Http2Scanner scanner;
  while (!bytes.empty()) {
    scanner.Append(bytes.substr(0, piece_bytes));
    bytes.remove_prefix(std::min(piece_bytes, bytes.size()));
    while (true) {
      absl::StatusOr<std::optional<gate::Http2Unit>> unit = scanner.Next();
      scanned.status = unit.status();
      if (!unit.ok()) return scanned;
      if (!unit->has_value()) break;
      scanned.units.push_back(**std::move(unit));
    }
  }
  scanned.rest = scanner.TakeRest();
  return scanned;
}

void FuzzHttp2(std::string_view input) {
  if (input.empty()) return;
  // The first byte gives the size of the pieces into which the rest is cut.
  const size_t piece_bytes = 1 + static_cast<unsigned char>(input.front());
  input.remove_prefix(1);
  const Scanned whole = Scan(input, input.size() + 1);
  const Scanned cut = Scan(input, piece_bytes);
  Require(whole.status == cut.status, "an error does not depend on how the bytes are cut");
  Require(whole.units.size() == cut.units.size(), "units do not depend on how the bytes are cut");
  std::string all;
  uint32_t last_call = 0;
  for (size_t i = 0; i < whole.units.size(); ++i) {
    const gate::Http2Unit& unit = whole.units[i];
    Require(unit.bytes == cut.units[i].bytes && unit.path == cut.units[i].path &&
                unit.authorization == cut.units[i].authorization && unit.kind == cut.units[i].kind,
            "a unit does not depend on how the bytes are cut");
    Require(unit.path.size() + unit.authorization.size() <= gate::kMaxHeaderListBytes, "headers keep to their limit");
    if (unit.kind == gate::Http2Unit::Kind::kCall) {
      Require(unit.stream_id > last_call && unit.stream_id % 2 == 1, "calls open streams in order");
      last_call = unit.stream_id;
    }
    all += unit.bytes;
  }
  if (!whole.status.ok()) return;
  all += whole.rest;
  Require(all == input, "no byte is lost");
  constexpr size_t kMaxWaiting =
      gate::kMaxHeaderBlockBytes + gate::kMaxFrameBytes + (gate::kMaxContinuations + 2) * gate::kFrameHeaderBytes;
  Require(whole.rest.size() <= kMaxWaiting, "what waits keeps to its limit");
}

const Registration kHttp2Target("http2", &FuzzHttp2);

}  // namespace
}  // namespace maxsim::fuzz
