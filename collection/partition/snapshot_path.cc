#include "collection/partition/snapshot_path.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/output_file.h"
#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr size_t kMaxComponentBytes = 255;

}  // namespace

std::string SnapshotPathProblem(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.size() > kMaxSnapshotPathBytes) {
    return Cat("has ", path.size(), " bytes, more than the limit ", kMaxSnapshotPathBytes);
  }
  if (path.front() == '/') return "is not relative";
  if (std::any_of(path.begin(), path.end(), [](char c) { return c <= ' ' || c >= 0x7f || c == '\\'; })) {
    return "has a character that no file of a collection has";
  }
  for (const std::string& component : std::vector<std::string>(absl::StrSplit(ForStrCat(path), '/'))) {
    if (component.empty() || component == "." || component == "..") {
      return "has an empty component, or one that is a dot or two";
    }
    if (component.size() > kMaxComponentBytes) {
      return Cat("has a component of ", component.size(), " bytes, more than the limit ", kMaxComponentBytes);
    }
    if (component.ends_with(kTemporarySuffix)) return Cat("has a component that ends with ", kTemporarySuffix);
  }
  return "";
}

}  // namespace maxsim::collection
