// Parses the directory of a ZIP archive (with its 64-bit extensions), as far as NumPy's .npz files need it. Works on
// the archive's bytes, so that stored members can be read in place, no matter how large they are.
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

// Lists the members in directory order. Every range lies inside `bytes`. Returns INVALID_ARGUMENT for bytes that are
// not an archive, encrypted members, members with the same name, compressions other than deflate, archives in several
// volumes, and contradictory directories. A directory is also refused if a member's compressed bytes are too few for
// its size (about 1 : 1000), so that a small archive cannot claim a huge size.
absl::StatusOr<std::vector<ZipMember>> ParseZip(std::string_view bytes);

}  // namespace maxsim::collection
