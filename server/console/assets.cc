#include "server/console/assets.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "server/console/embedded_files.h"

namespace maxsim::console {
namespace {

struct ContentType {
  std::string_view ending;
  std::string_view type;
};
constexpr std::array<ContentType, 4> kContentTypes = {{{".html", "text/html; charset=utf-8"},
                                                       {".css", "text/css; charset=utf-8"},
                                                       {".js", "text/javascript; charset=utf-8"},
                                                       {".svg", "image/svg+xml"}}};

std::string_view ContentTypeOf(std::string_view name) {
  for (const ContentType& known : kContentTypes) {
    if (name.ends_with(known.ending)) return known.type;
  }
  return "application/octet-stream";
}

std::string EtagOf(std::string_view bytes) {
  Checksum checksum;
  checksum.Update(bytes.data(), bytes.size());
  return Cat("\"", checksum.Format().substr(kChecksumPrefix.size()), "\"");
}

std::vector<Asset> MakeAssets() {
  std::vector<Asset> assets;
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    assets.push_back({file.name, file.bytes, ContentTypeOf(file.name), EtagOf(file.bytes)});
  }
  return assets;
}

}  // namespace

const Asset* FindAsset(std::string_view name) {
  static const auto* const assets = new std::vector<Asset>(MakeAssets());
  const auto found = std::find_if(assets->begin(), assets->end(), [&](const Asset& one) { return one.name == name; });
  return found == assets->end() ? nullptr : &*found;
}

}  // namespace maxsim::console
