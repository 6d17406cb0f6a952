#include "server/http/documents/document_path.h"

#include <cstddef>

#include "server/http/text/percent.h"

namespace maxsim::http {
namespace {

constexpr std::string_view kCollections = "/v1/collections/";
constexpr std::string_view kDocuments = "documents";

// The last parts of paths that take POST. A document's id may also be "get" or "scroll": a GET of the path reads that
// document.
constexpr std::string_view kGetName = "get";
constexpr std::string_view kScrollName = "scroll";

}  // namespace

std::optional<DocumentPath> ParseDocumentPath(std::string_view path) {
  if (!path.starts_with(kCollections)) return std::nullopt;
  path.remove_prefix(kCollections.size());
  const size_t name_end = path.find('/');
  if (name_end == path.npos || name_end == 0) return std::nullopt;
  std::optional<std::string> name = PercentDecode(path.substr(0, name_end));
  path.remove_prefix(name_end + 1);
  if (!name.has_value() || !path.starts_with(kDocuments)) return std::nullopt;
  path.remove_prefix(kDocuments.size());
  if (path.empty()) return DocumentPath{*std::move(name), ""};
  // An id may hold slashes, but only percent-encoded.
  if (path.size() < 2 || path[0] != '/' || path.find('/', 1) != path.npos) return std::nullopt;
  std::optional<std::string> id = PercentDecode(path.substr(1));
  if (!id.has_value()) return std::nullopt;
  return DocumentPath{*std::move(name), *std::move(id)};
}

std::optional<DocumentCall> FindDocumentCall(std::string_view method, const DocumentPath& path) {
  if (path.id.empty()) {
    if (method == "PUT") return DocumentCall::kUpsert;
    if (method == "DELETE") return DocumentCall::kDelete;
    return std::nullopt;
  }
  if (method == "GET" || method == "HEAD") return DocumentCall::kGetOne;
  if (method == "POST" && path.id == kGetName) return DocumentCall::kGet;
  if (method == "POST" && path.id == kScrollName) return DocumentCall::kScroll;
  return std::nullopt;
}

std::string_view MethodsOf(const DocumentPath& path) {
  if (path.id.empty()) return "DELETE, PUT";
  return path.id == kGetName || path.id == kScrollName ? "GET, HEAD, POST" : "GET, HEAD";
}

}  // namespace maxsim::http
