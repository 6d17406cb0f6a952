// Parses the directory of a ZIP archive (with 64-bit extensions), as far as NumPy's .npz files need it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace maxsim::collection {

struct ZipMember {
  std::string name;
  bool deflated = false;  // otherwise stored
  uint32_t crc32 = 0;     // of the uncompressed bytes
  int64_t begin = 0;      // byte range of the (compressed) data in the archive
  int64_t end = 0;
  int64_t size = 0;  // uncompressed
};

// Lists the members of the archive `bytes` in directory order. Every member's byte range lies inside `bytes`. Returns
// INVALID_ARGUMENT if `bytes` is not an archive, or has several volumes, a damaged directory, an encrypted member, two
// members with one name, or a compression other than deflate. Also refuses a member whose size is more than about 1,000
// times its compressed bytes, so that a small archive cannot claim a huge size.
absl::StatusOr<std::vector<ZipMember>> ParseZip(std::string_view bytes);

}  // namespace maxsim::collection
