#include "server/http/collections/collection_path.h"

#include <cstddef>
#include <utility>

#include "server/http/text/percent.h"

namespace maxsim::http {
namespace {

constexpr std::string_view kBeforeName = "/v1/collections/";
constexpr std::string_view kCompactAction = "compact";
constexpr std::string_view kSnapshotAction = "snapshot";
constexpr std::string_view kLayoutAction = "layout";

bool IsAction(std::string_view text) {
  return text == kCompactAction || text == kSnapshotAction || text == kLayoutAction;
}

}  // namespace

std::optional<CollectionPath> ParseCollectionPath(std::string_view path) {
  if (!path.starts_with(kBeforeName)) return std::nullopt;
  path.remove_prefix(kBeforeName.size());
  const size_t name_end = path.find('/');
  const std::string_view action = name_end == path.npos ? "" : path.substr(name_end + 1);
  if (name_end != path.npos && !IsAction(action)) return std::nullopt;
  std::optional<std::string> name = PercentDecode(path.substr(0, name_end));
  if (!name.has_value() || name->empty()) return std::nullopt;
  return CollectionPath{*std::move(name), std::string(action)};
}

std::optional<std::string> CollectionOf(std::string_view path) {
  std::optional<CollectionPath> parsed = ParseCollectionPath(path);
  if (!parsed.has_value() || !parsed->action.empty()) return std::nullopt;
  return std::move(parsed->name);
}

std::optional<CollectionCall> FindCollectionCall(std::string_view method, const CollectionPath& path) {
  if (path.action.empty()) return method == "PUT" ? std::optional(CollectionCall::kCreate) : std::nullopt;
  if (path.action == kLayoutAction) return method == "PUT" ? std::optional(CollectionCall::kLayout) : std::nullopt;
  if (method != "POST") return std::nullopt;
  return path.action == kCompactAction ? CollectionCall::kCompact : CollectionCall::kSnapshot;
}

std::string_view MethodsOf(const CollectionPath& path, bool changes) {
  if (path.action.empty()) return changes ? "GET, HEAD, PUT" : "GET, HEAD";
  if (!changes) return "";
  return path.action == kLayoutAction ? "PUT" : "POST";
}

}  // namespace maxsim::http
