// Writes ZIP archives as numpy.savez and savez_compressed do, for tests.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace maxsim::collection {

struct ZipOptions {
  bool deflate = false;
  bool zip64 = false;  // sizes and offsets in the 64-bit extra fields, as NumPy writes them
};

std::string ZipBytes(const std::vector<std::pair<std::string, std::string>>& members, const ZipOptions& options);

}  // namespace maxsim::collection
