// The files of the console, a web page on which people ask questions: the page, its style and its scripts. All are
// static.
#pragma once

#include <string>
#include <string_view>

namespace maxsim::console {

struct Asset {
  std::string_view name;  // "index.html"
  std::string_view bytes;
  std::string_view content_type;
  std::string etag;  // a strong ETag with its quotes; it changes whenever the bytes do
};

// Returns null if there is no such file. The asset lives as long as the program. Thread-safe.
const Asset* FindAsset(std::string_view name);

}  // namespace maxsim::console
