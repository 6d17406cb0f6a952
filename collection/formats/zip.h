// The directory of a ZIP archive (with its 64-bit extensions), as far as NumPy's .npz files need it. A pure parser over
// the archive's bytes: members that were stored can then be read in place, however large they are.
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

// Lists the members in directory order. Every range lies inside `bytes`. INVALID_ARGUMENT for what is no archive, for
// encrypted members, members of the same name, other compressions than deflate, archives in several volumes and
// directories that do not add up: among them sizes that a member's compressed bytes cannot come to, so that a size
// costs an archive at least a thousandth of it in bytes.
absl::StatusOr<std::vector<ZipMember>> ParseZip(std::string_view bytes);

}  // namespace maxsim::collection
