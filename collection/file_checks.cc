#include "collection/file_checks.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/text.h"

namespace maxsim::collection {
namespace {

// Number of bytes that are read at a time to hash a file.
constexpr size_t kHashBlockBytes = size_t{4} << 20;

}  // namespace

absl::Status DataLoss(std::string_view path, std::string_view message) {
  return absl::DataLossError(Cat(path, ": ", message));
}

std::string_view MessageOf(const absl::Status& status) {
  return std::string_view(status.message().data(), status.message().size());
}

absl::Status AsDataLoss(const absl::Status& status) {
  return status.ok() ? status : absl::DataLossError(status.message());
}

absl::Status CheckFileSize(const InputFile& file, int64_t num_bytes) {
  if (file.size() == num_bytes) return absl::OkStatus();
  return DataLoss(file.path(), Cat(file.size(), " bytes, but the manifest says ", num_bytes));
}

absl::StatusOr<std::string> HashBytes(std::string_view bytes, const StopSignal* stop) {
  Checksum checksum;
  for (size_t begin = 0; begin < bytes.size(); begin += kStopBlockBytes) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    checksum.Update(bytes.data() + begin, std::min(kStopBlockBytes, bytes.size() - begin));
  }
  return checksum.Format();
}

absl::StatusOr<std::string> HashFile(const InputFile& file, const StopSignal* stop) {
  Checksum checksum;
  const auto size = static_cast<size_t>(file.size());
  std::vector<char> block(std::min(kHashBlockBytes, size));
  for (size_t begin = 0; begin < size; begin += block.size()) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    const size_t count = std::min(block.size(), size - begin);
    if (absl::Status status = file.ReadAt(static_cast<int64_t>(begin), block.data(), count); !status.ok()) {
      return status;
    }
    checksum.Update(block.data(), count);
  }
  return checksum.Format();
}

absl::Status CheckChecksum(std::string_view path, std::string_view found, std::string_view expected) {
  if (found == expected) return absl::OkStatus();
  return DataLoss(path, Cat("checksum: ", found, ", but the manifest says ", expected));
}

}  // namespace maxsim::collection
