#include "server/service/call/write_expiry.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "base/lines.h"

namespace maxsim::service {
namespace {

uint64_t MakeClockId() {
  std::random_device device;
  const uint64_t high = device();
  const uint64_t id = high << 32 | device();
  return id == 0 ? 1 : id;
}

}  // namespace

uint64_t ClockId() {
  static const uint64_t id = MakeClockId();
  return id;
}

std::string FormatWriteExpiry(uint64_t clock_id, absl::Time expires) {
  return absl::StrCat(clock_id, ":", absl::ToUnixMicros(expires));
}

absl::Time ParseWriteExpiry(std::string_view value) {
  const size_t colon = value.find(':');
  uint64_t id = 0;
  int64_t micros = 0;
  if (colon == std::string_view::npos || !ParseNumber(value.substr(0, colon), id) ||
      !ParseNumber(value.substr(colon + 1), micros) || id != ClockId()) {
    return absl::InfinitePast();
  }
  return absl::FromUnixMicros(micros);
}

}  // namespace maxsim::service
