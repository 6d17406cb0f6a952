// Has the files of the console: a page for people, its style, its scripts. They hold no data of the server.
#pragma once

#include <string>
#include <string_view>

namespace maxsim::console {

struct Asset {
  std::string_view name;  // "index.html"
  std::string_view bytes;
  std::string_view content_type;
  std::string etag;  // a strong one, with its quotes: it changes with the bytes
};

// Returns null where there is no such file. What it returns lives as long as the program. Thread-safe.
const Asset* FindAsset(std::string_view name);

}  // namespace maxsim::console
